"""Signs of life: which phase a run is in and how far that is, told now and then to whoever watches."""

import time
from collections.abc import Callable, Mapping
from typing import Any, final

INTERVAL = 0.5
"""Seconds between two signs of the same phase."""

Tell = Callable[[str, Mapping[str, Any]], None]


@final
class Pulse:
    """Tells of phases; without a listener it costs nothing.

    Example:
        >>> heard = []
        >>> pulse = Pulse(clock=lambda: 0.0)
        >>> pulse.tell = lambda event, fields: heard.append((event, fields["phase"], fields["done"]))
        >>> pulse.phase("loss finetuning", total=500)
        >>> pulse.beat()  # too soon after the first
        >>> heard
        [('phase', 'loss finetuning', 0)]
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.tell: Tell | None = None
        self._clock, self._last = clock, 0.0
        self._phase, self._done, self._total = "", 0, None

    def phase(self, name: str, *, total: int | None = None) -> None:
        """A phase begins; of `total` steps, if that is known."""
        self._phase, self._done, self._total = name, 0, total
        self._say()

    def beat(self, steps: int = 0) -> None:
        """Something was done, and so many further steps of the phase."""
        self._done += steps
        if self.tell is not None and self._clock() - self._last >= INTERVAL:
            self._say()

    def _say(self) -> None:
        if self.tell is not None:
            self._last = self._clock()
            self.tell("phase", {"phase": self._phase, "done": self._done, "total": self._total})
