"""Evidence about candidates: what a metric says of each on all rows and on choices of them."""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from metricopt.acceptance.evidence import RETRIES, Asks, Evidence, Once, bootstrapped, jackknifed
from metricopt.adapters import AdaptedModel
from metricopt.core.errors import MetricError, MetricFailureWarning
from metricopt.data.dataset import Data
from metricopt.metrics import Metric
from metricopt.task.answers import evaluator, on_device, value_of_model

RESAMPLES, FOLDS = 500, 8
"""How often a metric is asked for a decision, about each candidate: a cheap one, and a dear one."""


def gathered(
    metric: Metric,
    candidates: Sequence[Any],
    data: Data,
    *,
    resamples: int | None,
    generator: torch.Generator,
    once: Once = lambda _key, ask, _calls: ask(),
    recalled: Callable[[str], bool] = lambda _key: False,
    ask: Asks | None = None,
) -> Evidence:
    """Evidence about candidates: a cheap metric's by resampling, a dear one's by leaving out folds."""
    evaluate = evaluator_of(metric, candidates, data)
    count, units = len(candidates), units_of(metric, data)
    if not metric.resampled and resamples is None:
        folds = min(FOLDS, units)
        return jackknifed(
            evaluate,
            units,
            folds,
            generator,
            candidates=count,
            once=once,
            recalled=recalled,
            ask=Asks(lambda one: evaluator_of(metric, candidates[one : one + 1], data)) if ask is None else ask,
        )
    calls = metric.resampling.calls(1) - 1
    return bootstrapped(evaluate, units, resamples or RESAMPLES, generator, candidates=count, once=once, calls=calls)


def decision_calls(metric: Metric, candidates: int) -> int:
    """How often a metric is asked at most to decide between the original and so many candidates.

    Example:
        >>> from metricopt.metrics import as_metric
        >>> decision_calls(as_metric("f1"), 1)
        1002
    """
    cheap = metric.resampling.calls(RESAMPLES)
    return (1 + candidates) * (cheap + (RETRIES if cheap == 1 else 0) if metric.resampled else FOLDS + 1 + RETRIES)


def evaluator_of(metric: Metric, candidates: Sequence[Any], data: Data) -> Callable[[Tensor], Tensor]:
    """A function from choices of rows, or of classes (choices, n), to values (candidates, choices)."""

    def of_one(candidate: Any) -> Callable[[Tensor], Tensor]:
        if isinstance(candidate, nn.Module):
            return lambda index: torch.stack([_value(metric, candidate, data, rows) for rows in index])
        return evaluator(metric, candidate, data.truth)

    each = [of_one(candidate) for candidate in candidates]
    return lambda index: torch.stack([values_on(index) for values_on in each])


def units_of(metric: Metric, data: Data) -> int:
    """How many rows, or classes, a metric is resampled by."""
    return metric.resampling.units(data.truth, len(data))


def _value(metric: Metric, model: nn.Module, data: Data, index: Tensor) -> Tensor:
    batch = data.batch(index, seed=0)
    if isinstance(model, AdaptedModel):
        batch = on_device(model, batch)
    try:
        value = value_of_model(metric, model, batch)
    except MetricError as error:
        warnings.warn(str(error), MetricFailureWarning, stacklevel=6)
        value = math.nan
    return torch.tensor(value, dtype=torch.float64)
