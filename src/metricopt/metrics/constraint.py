"""What must not get worse: bounds on further metrics, kept in the search and checked again by the acceptance."""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, final

from torch import Tensor

from metricopt.core.errors import MetricError
from metricopt.metrics.metric import Metric
from metricopt.metrics.named import as_metric


@final
@dataclass(frozen=True)
class Constraint:
    """A bound on a metric, in its natural units: exactly one of `at_least` and `at_most`.

    The search prefers points that keep it with a margin for the noise of its rows. The acceptance keeps the original
    unless the bound holds on the held-out rows with the stated confidence, not for the estimate alone.

    Attributes:
        metric: A `Metric`, or what `optimize` takes for one.
        at_least: Smallest allowed value.
        at_most: Largest allowed value.
        confidence: One-sided confidence with which it must hold on the held-out data.

    Example:
        >>> Constraint("accuracy", at_least=0.8).text
        'accuracy >= 0.8'
        >>> Constraint("accuracy")
        Traceback (most recent call last):
        ...
        metricopt.core.errors.MetricError: a constraint on 'accuracy' has at_least=None and at_most=None; ...
    """

    metric: Any
    at_least: float | None = None
    at_most: float | None = None
    confidence: float = 0.9

    def __post_init__(self) -> None:
        object.__setattr__(self, "metric", as_metric(self.metric))
        name = self.metric.name
        if (self.at_least is None) == (self.at_most is None):
            raise MetricError(
                f"a constraint on {name!r} has at_least={self.at_least} and at_most={self.at_most}; give one of them"
            )
        low, high = self.metric.bounds
        if not (low <= self.bound <= high and math.isfinite(self.bound)):
            raise MetricError(
                f"a constraint on {name!r} has the bound {self.bound:g}; expected one between {low:g} and {high:g}"
            )
        if not 0.5 <= self.confidence < 1:
            raise MetricError(f"a constraint on {name!r} has confidence={self.confidence}; expected 0.5 up to below 1")

    @property
    def bound(self) -> float:
        """The number that must not be crossed."""
        return float(self.at_most if self.at_least is None else self.at_least)  # pyright: ignore[reportArgumentType]

    @property
    def text(self) -> str:
        """The constraint in a few characters."""
        return f"{self.metric.name} {'<=' if self.at_least is None else '>='} {self.bound:g}"

    def violation(self, values: Tensor, *, margin: float = 0.0) -> Tensor:
        """By how much each value breaks it, as a share of the metric's range; 0 where it holds, 1 where unknown.

        Without a range it is squashed: one half where the value is off by as much as the bound itself.

        Example:
            >>> import torch
            >>> Constraint("accuracy", at_least=0.75).violation(torch.tensor([1.0, 0.5, math.nan])).tolist()
            [0.0, 0.25, 1.0]
        """
        low, high = self.metric.bounds
        short = values - self.bound if self.at_least is None else self.bound - values
        if self.metric.unbounded:
            share = ((short + margin) / (abs(self.bound) or 1.0)).atan() * (2 / math.pi)
        else:
            share = (short + margin) / (high - low)
        return share.clamp(0.0, 1.0).nan_to_num(nan=1.0)

    def margin(self, std: float) -> float:
        """How far inside the bound the search must stay for the acceptance to be likely to agree.

        The search's estimate is off by about a standard error, the held-out one by another, and the held-out bound lies
        a third one below it. With 2 in place of 3, 7 of 12 searches were accepted instead of 10; with 4, 6.
        """
        return 3 * NormalDist().inv_cdf(self.confidence) * std

    def holds(self, value: float) -> bool:
        """Whether a value keeps it; NaN does not."""
        return value <= self.bound if self.at_least is None else value >= self.bound


def binomial_std(value: float, metric: Metric, rows: int) -> float:
    """Standard error of a metric at `value` if it were a mean of all-or-nothing rows: a guess that costs nothing.

    Without bounds, if it were a mean of rows that differ by as much as their mean, as errors usually do.

    Example:
        >>> round(binomial_std(0.8, as_metric("accuracy"), 400), 3)
        0.02
    """
    if metric.unbounded:
        return abs(value) / math.sqrt(rows)
    low, high = metric.bounds
    share = min(max((value - low) / (high - low), 0.0), 1.0)
    return (high - low) * math.sqrt(share * (1 - share) / rows)
