"""A call that is waited for only so long."""

import threading
from collections.abc import Callable
from typing import Any

import torch


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
    outcome: dict[str, Any] = {}

    def work() -> None:
        try:
            with torch.no_grad():  # a thread does not inherit it
                outcome["answer"] = function(*arguments)
        except BaseException as error:
            outcome["error"] = error

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(seconds)
    settled = dict(outcome)  # a late answer must not slip in between the two questions below
    if "error" in settled:
        raise settled["error"]
    if "answer" not in settled:
        raise TimeoutError(f"no answer within {seconds:g} s")
    return settled["answer"]
