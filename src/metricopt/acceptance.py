"""Keep the new phi only if it is better on data that were never queried: a paired bootstrap."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from metricopt.errors import MetricError, MetricFailureWarning
from metricopt.examples import Examples
from metricopt.metrics import Metric

_REPLICATES_AT_ONCE = 50


@dataclass(frozen=True)
class Comparison:
    """Two models on the same examples, in the metric's natural units.

    Attributes:
        before: Value of the original model.
        after: Value of the new one.
        interval: Interval of the gain, `after` - `before` turned so that positive is better.
        level: Level of that two-sided interval.
        confidence: Share of the resamples in which the new model is strictly better.
        resamples: Bootstrap resamples that gave a number.
        examples: Rows compared on.

    Example:
        >>> gain = Comparison(0.20, 0.18, (0.01, 0.03), level=0.9, confidence=0.99, resamples=500, examples=1000)
        >>> gain.accepted
        True
    """

    before: float
    after: float
    interval: tuple[float, float]
    level: float
    confidence: float
    resamples: int
    examples: int

    @property
    def accepted(self) -> bool:
        """Whether the whole interval of the gain lies above zero."""
        return self.interval[0] > 0


def compare(
    metric: Metric,
    outputs: tuple[Tensor, Tensor],
    examples: Examples,
    *,
    level: float = 0.9,
    resamples: int = 500,
    generator: torch.Generator,
) -> Comparison:
    """Original against new outputs (n, ...) on `examples`; rows are resampled together, so the test is paired.

    Accepting when the two-sided interval of `level` 0.9 is above zero is a one-sided test at 5%.

    Example:
        >>> from metricopt.metrics import mcr
        >>> truth = torch.arange(200) % 2
        >>> right, wrong = truth * 2.0 - 1, torch.ones(200)
        >>> data = Examples(torch.zeros(200, 1), truth)
        >>> compare(mcr(), (wrong, right), data, generator=torch.Generator().manual_seed(0)).accepted
        True
    """

    def evaluate(index: Tensor) -> Tensor:  # (replicates, n) -> (2, replicates)
        groups = None if examples.groups is None else examples.groups[index]
        targets = examples.targets[index]
        return torch.stack([metric.values(each[index], targets, groups, failures="nan") for each in outputs])

    return _bootstrap(metric, evaluate, len(examples), level=level, resamples=resamples, generator=generator)


def compare_models(
    metric: Metric,
    models: tuple[torch.nn.Module, torch.nn.Module],
    examples: Examples,
    *,
    level: float = 0.9,
    resamples: int = 50,
    generator: torch.Generator,
) -> Comparison:
    """Like `compare` for a metric computed on the model itself: every resample asks it about other rows.

    Example:
        >>> size = Metric(lambda model, x, y: float(model(x).mean()), on="model", goal="max", name="size")
        >>> models = (torch.nn.Hardtanh(0.0, 0.5), torch.nn.Hardtanh(0.0, 1.0))
        >>> data = Examples(torch.linspace(0, 1, 50), torch.zeros(50))
        >>> compare_models(size, models, data, generator=torch.Generator().manual_seed(0)).accepted
        True
    """

    def evaluate(index: Tensor) -> Tensor:
        parts = [examples.rows(rows) for rows in index]
        return torch.tensor([[_value(metric, model, p) for p in parts] for model in models], dtype=torch.float64)

    return _bootstrap(metric, evaluate, len(examples), level=level, resamples=resamples, generator=generator)


def _value(metric: Metric, model: torch.nn.Module, examples: Examples) -> float:
    try:
        return metric.value_of_model(model, examples.inputs, examples.targets, examples.groups)
    except MetricError as error:
        warnings.warn(str(error), MetricFailureWarning, stacklevel=6)
        return math.nan


def _bootstrap(
    metric: Metric,
    evaluate: Callable[[Tensor], Tensor],
    rows: int,
    *,
    level: float,
    resamples: int,
    generator: torch.Generator,
) -> Comparison:
    before, after = evaluate(torch.arange(rows)[None])[:, 0].tolist()
    index = torch.randint(rows, (resamples, rows), generator=generator)
    pairs = torch.cat([evaluate(part) for part in index.split(_REPLICATES_AT_ONCE)], 1)  # (2, resamples)
    pairs = pairs[:, ~pairs.isnan().any(0)]
    gains = (pairs[1] - pairs[0]) * (1.0 if metric.goal == "max" else -1.0)
    tail = (1 - level) / 2
    # Without a single number nothing is known, and nothing must be accepted.
    ends = torch.tensor([tail, 1 - tail], dtype=gains.dtype)
    low, high = torch.quantile(gains, ends).tolist() if gains.numel() else (math.nan, math.nan)
    return Comparison(
        before=before,
        after=after,
        interval=(low, high),
        level=level,
        confidence=float((gains > 0).sum()) / max(gains.numel(), 1),
        resamples=gains.numel(),
        examples=rows,
    )
