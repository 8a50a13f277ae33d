"""A call that is waited for only so long."""

import threading
import time
from collections.abc import Callable
from typing import Any

import torch

MOST_HANGING = 64
"""Calls that were given up and go on nevertheless; as long as there are so many, no further one is made."""

_hanging: set[threading.Thread] = set()  # of this process: a thread cannot be ended, only be waited for
_lock = threading.Lock()


def within(seconds: float | None, function: Callable[..., Any], *arguments: Any) -> Any:
    """What `function(*arguments)` gives, or a TimeoutError if it takes longer; None waits for ever.

    Python cannot end a thread: one that hangs stays, as a daemon that does not keep the process alive, and what it
    answers later is thrown away. A metric that hangs often is better run by `CommandMetric`, which kills it.

    Example:
        >>> within(5.0, max, 1, 2)
        2
    """
    if seconds is None:
        return function(*arguments)
    end = time.monotonic() + seconds
    _wait_for_room(end, seconds)
    outcome: dict[str, Any] = {}

    def work() -> None:
        try:
            with torch.no_grad():  # a thread does not inherit it
                outcome["answer"] = function(*arguments)
        except BaseException as error:
            outcome["error"] = error

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(max(end - time.monotonic(), 0.0))
    settled = dict(outcome)  # a late answer must not slip in between the two questions below
    if "error" in settled:
        raise settled["error"]
    if "answer" not in settled:
        with _lock:
            _hanging.add(worker)
        raise TimeoutError(f"no answer within {seconds:g} s")
    return settled["answer"]


def _wait_for_room(end: float, seconds: float) -> None:
    """Wait until fewer than `MOST_HANGING` earlier calls hang; a TimeoutError if that is too late."""
    while True:
        with _lock:
            _hanging.difference_update([each for each in _hanging if not each.is_alive()])
            eldest = next(iter(_hanging)) if len(_hanging) >= MOST_HANGING else None
        if eldest is None:
            return
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError(
                f"no answer within {seconds:g} s: {MOST_HANGING} earlier calls still hang, so it was not asked"
            )
        eldest.join(min(left, 0.02))
