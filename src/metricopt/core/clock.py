"""How long work takes on a machine that others use too."""

import time

Moment = tuple[float, float]
"""Seconds by the clock and of this process."""


def now() -> Moment:
    """The present moment, to be handed to `since`."""
    return time.perf_counter(), time.process_time()


def since(began: Moment) -> float:
    """Seconds of work: neither those a busy machine spent on others, nor those of several threads added up.

    Example:
        >>> began = now()
        >>> time.sleep(0.2)
        >>> since(began) < 0.1
        True
    """
    return min(after - before for after, before in zip(now(), began, strict=True))
