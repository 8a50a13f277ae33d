"""What a metric is described by and what it answers, checked once."""

import math
import numbers
from typing import Any

import numpy as np
from torch import Tensor

from metricopt.core.errors import MetricError


def as_float(answer: Any) -> float | None:
    """The answer as a float, or None if it is not one number.

    Example:
        >>> as_float(np.array([0.5])), as_float("0.5")
        (0.5, None)
    """
    if isinstance(answer, (Tensor, np.ndarray)):
        answer = answer.item() if math.prod(answer.shape) == 1 else None
    return float(answer) if isinstance(answer, (numbers.Real, np.bool_)) else None


def stated(name: str, what: str, found: Any, choices: tuple[str, ...]) -> Any:
    """What the user stated of the metric `name`, one of the choices."""
    if found is None:
        example = "on='labels', goal='max'"
        raise MetricError(
            f"metric {name!r} was given without {what!r}, which is never guessed: "
            f"write Metric(..., {example}) with {what} one of {', '.join(choices)}"
        )
    if found not in choices:
        raise MetricError(f"metric {name!r} has {what}={found!r}; choose one of {', '.join(map(repr, choices))}")
    return found


def positive(name: str, what: str, number: float | None) -> float | None:
    """A positive number, or None if none was given."""
    if number is not None and not 0 < number < math.inf:
        raise MetricError(f"metric {name!r} has {what}={number}; a positive number is expected")
    return number


def checked_bounds(name: str, bounds: tuple[float, float]) -> tuple[float, float]:
    """The bounds as two finite floats in increasing order."""
    low, high = (float(bound) for bound in bounds)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise MetricError(f"metric {name!r} has bounds={bounds}; two finite numbers, the smaller first, are expected")
    return low, high
