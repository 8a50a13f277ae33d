"""Whether a metric's answers are within the range that was stated for it, and what to do if they are not."""

import warnings
from typing import final

from metricopt.core.errors import MetricError, MetricOptWarning
from metricopt.metrics.scale import Goal

_TOLERANCE = 1e-6  # of the width of the bounds: rounding, not a wrong range


@final
class BoundsCheck:
    """Looks at every answer of one metric; the first one within the bounds makes a worse one believable.

    Example:
        >>> check = BoundsCheck("error", "min", (0.0, 10.0))
        >>> check.answer(57.0)
        Traceback (most recent call last):
        ...
        metricopt.core.errors.MetricError: metric 'error' gave 57, outside its bounds (0, 10): state its true range ...
        >>> check.answer(4.0)
        4.0
    """

    def __init__(self, name: str, goal: Goal, bounds: tuple[float, float]) -> None:
        self._name, self._goal, self._bounds = name, goal, bounds
        width = bounds[1] - bounds[0]
        self._slack = _TOLERANCE * (width if width < float("inf") else 1.0)
        self._believable, self._warned = False, False

    def answer(self, number: float) -> float:
        """The number, if it can be one; a warning at the first that is worse than the bounds allow for."""
        self.value(number)
        if not self._beyond_worst(number):
            self._believable = True
        elif not self._believable:
            raise self._error(number)
        elif not self._warned:
            self._warned = True
            message = f"{self._error(number)}; it counts as the worst, as will others, without a further word"
            warnings.warn(message, MetricOptWarning, stacklevel=2)
        return number

    def value(self, number: float) -> float:
        """The number, unless it is better than the best."""
        low, high = self._bounds
        if number > high + self._slack if self._goal == "max" else number < low - self._slack:
            raise self._error(number)
        return number

    def _beyond_worst(self, number: float) -> bool:
        low, high = self._bounds
        return number < low - self._slack if self._goal == "max" else number > high + self._slack

    def _error(self, number: float) -> MetricError:
        low, high = self._bounds
        return MetricError(
            f"metric {self._name!r} gave {number:g}, outside its bounds ({low:g}, {high:g}): "
            f"state its true range with Metric(..., bounds=(low, high)), or bounds=None if it has none"
        )
