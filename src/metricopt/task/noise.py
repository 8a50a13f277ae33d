"""How far answers are off because the metric's data are finite: measured on resamples if that is cheap, or guessed."""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import final

import torch
from torch import Tensor

from metricopt.metrics.constraint import Constraint, binomial_std
from metricopt.metrics.metric import Metric
from metricopt.run.ledger import QueryLedger
from metricopt.task.base import Task

_NOISE_RESAMPLES, _DOUBT_RESAMPLES = 100, 24
_REMEMBERED = 4  # phi with their costs on resamples
DOUBTS = 60
"""How many phi a cheap metric is asked about on resamples in one run; of further ones the doubt is guessed."""
DEAR = 0.05
"""Seconds a call from where it is dear, whatever was declared."""


@final
class Noise:
    """The noise of a task's answers; calls of its metric on resamples are counted by the ledger.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> Noise(QuadraticTask(dim=2), QueryLedger()).std()
        0.0
    """

    def __init__(self, task: Task, ledger: QueryLedger) -> None:
        self._task, self._ledger = task, ledger
        self._resamples: dict[bytes, Tensor] = {}
        self._doubted: set[bytes] = set()

    def std(self) -> float:
        """Standard deviation of one answer at phi = 0 due to the finite metric data."""
        known = self._resampled(torch.zeros(self._task.dim), _NOISE_RESAMPLES)
        return self._task.noise_guess() if known is None else _spread(known, otherwise=self._task.noise_guess())

    def doubt(self, phi: Tensor, other: Tensor) -> float:
        """Standard error of the difference of two costs, each phi (dim,), due to the finite metric data."""
        one, two = self._remembered(phi), self._remembered(other)
        if one is None or two is None:
            return self._task.doubt_guess(phi, other)
        return _spread(one - two, otherwise=math.inf)

    def lead(self, phi: Tensor, other: Tensor) -> float | None:
        """Standard errors by which one phi (dim,) is better than another; None of a metric that is not resampled."""
        one, two = self._remembered(phi), self._remembered(other)
        if one is None or two is None:
            return None
        gain, doubt = float((two - one).nanmean()), _spread(two - one, otherwise=math.inf)
        return gain / doubt if doubt > 0 else math.copysign(math.inf, gain) if gain else 0.0

    def _remembered(self, phi: Tensor) -> Tensor | None:
        """Costs on resamples, of the last few phi asked about for nothing: they are compared again and again."""
        key = phi.numpy().tobytes()
        costs = self._resamples.pop(key, None)
        if costs is None and (key in self._doubted or len(self._doubted) < DOUBTS):
            self._doubted.add(key)
            costs = self._resampled(phi, _DOUBT_RESAMPLES)
        if costs is None:
            return None
        self._resamples[key] = costs
        if len(self._resamples) > _REMEMBERED:
            del self._resamples[next(iter(self._resamples))]
        return costs

    def _resampled(self, phi: Tensor, resamples: int) -> Tensor | None:
        if not self._task.resampled:
            return None
        key = f"noise {hashlib.sha256(phi.numpy().tobytes()).hexdigest()[:16]} {resamples}"
        calls = max((noise_calls_of(metric, resamples) for metric in self._task.metrics), default=resamples)
        return self._ledger.once(key, lambda: self._task.resampled_costs(phi, resamples), calls=calls)

    def of_constraint(self, constraint: Constraint, *, beyond: Callable[[], int]) -> tuple[Constraint, float]:
        """A constraint, its metric dear if a call takes long, and that one's standard deviation at phi = 0."""
        metric, origin = constraint.metric, torch.zeros(1, self._task.dim)
        predictions = self._task.predictions(origin)

        key = f"level of {constraint.text}"
        found = self._ledger.once(
            key, lambda: self._task.values(predictions, metric, [0]), kind="checks", calls=1, beyond=beyond
        )
        assert found is not None
        level = float(found)
        if self._ledger.seconds[key] > DEAR:
            metric = metric.dear()
        if not metric.resampled:
            return replace(constraint, metric=metric), self._guessed_std(metric, level)
        # Without bounds, costs are of use near what they are anchored to only.
        metric = metric if math.isnan(level) else metric.anchored(level)
        costs = self._ledger.once(
            f"noise of {constraint.text}",
            lambda: self._task.resampled_costs(origin[0], _NOISE_RESAMPLES, metric),
            calls=noise_calls_of(metric, _NOISE_RESAMPLES),
        )
        return constraint, 0.0 if costs is None else _natural_spread(metric, costs)

    def _guessed_std(self, metric: Metric, level: float) -> float:
        if math.isnan(level):
            level = 0.0 if metric.unbounded else sum(metric.bounds) / 2
        return binomial_std(level, metric, self._task.rows)


def noise_calls(metric: Metric, keep: Sequence[Constraint], *, queries: int) -> int:
    """How often metrics are asked on resamples in a search at most: dear ones never.

    Example:
        >>> from metricopt.metrics import as_metric
        >>> noise_calls(as_metric("f1"), (), queries=2), noise_calls(as_metric("f1").dear(), (), queries=2)
        (148, 0)
    """
    first, further = (noise_calls_of(metric, resamples) for resamples in (_NOISE_RESAMPLES, _DOUBT_RESAMPLES))
    own = first + further * min(queries, DOUBTS)
    return own + sum(noise_calls_of(each.metric, _NOISE_RESAMPLES) for each in keep)


def noise_calls_of(metric: Metric, resamples: int) -> int:
    """Calls that so many resamples of one phi take: none of a metric that is not resampled, one where that is enough.

    Example:
        >>> from metricopt.metrics import as_metric
        >>> [noise_calls_of(as_metric(name), 24) for name in ("f1", "recall_at_k")]
        [24, 1]
    """
    return min(resamples, metric.resampling.calls(resamples)) if metric.resampled else 0


def _spread(costs: Tensor, *, otherwise: float) -> float:
    known = costs[~costs.isnan()]
    return float(known.std()) if len(known) > 1 else otherwise


def _natural_spread(metric: Metric, costs: Tensor) -> float:
    """Standard deviation of costs, in natural units."""
    low, high = metric.bounds
    if metric.unbounded:
        return _spread(metric.natural(costs), otherwise=0.0)
    return (high - low) * _spread(costs, otherwise=0.0)
