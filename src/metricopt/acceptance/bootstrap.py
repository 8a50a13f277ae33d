"""Keep the new phi only if it is better on data that were never queried: a paired bootstrap."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from metricopt.core.errors import MetricError, MetricFailureWarning
from metricopt.data.dataset import Examples
from metricopt.metrics import Metric
from metricopt.metrics.constraint import Constraint

_REPLICATES_AT_ONCE = 50
_SURE = 0.8  # share of the resamples in which one candidate is better than a plainer one
_RETRIES = 3  # of the values on all rows, without which nothing is accepted


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
        """Whether the whole interval of the gain lies above zero, and the metric answered on all rows for both."""
        return self.interval[0] > 0 and not math.isnan(self.before) and not math.isnan(self.after)


@dataclass(frozen=True)
class Kept:
    """A constraint on the held-out examples, in its metric's natural units.

    Attributes:
        text: The constraint.
        before: Value of the original model.
        after: Value of the new one.
        bound: One-sided bootstrap bound of the new one's value, at the constraint's confidence.
        confidence: That confidence.
        holds: Whether the bound, not only the value, keeps the constraint.

    Example:
        >>> Kept("precision >= 0.8", 0.85, 0.83, 0.81, confidence=0.9, holds=True).holds
        True
    """

    text: str
    before: float
    after: float
    bound: float
    confidence: float
    holds: bool


def compare(
    metric: Metric,
    pair: Sequence[Tensor | torch.nn.Module],
    examples: Examples,
    *,
    level: float = 0.9,
    resamples: int = 500,
    generator: torch.Generator,
) -> Comparison:
    """Original against new outputs (n, ...) on `examples`; rows are resampled together, so the test is paired.

    For a metric computed on the model itself, the models instead of their outputs; it is asked once a resample.
    Accepting when the two-sided interval of `level` 0.9 is above zero is a one-sided test at 5%.

    Example:
        >>> from metricopt.metrics import mcr
        >>> truth = torch.arange(200) % 2
        >>> right, wrong = truth * 2.0 - 1, torch.ones(200)
        >>> data = Examples(torch.zeros(200, 1), truth)
        >>> compare(mcr(), (wrong, right), data, generator=torch.Generator().manual_seed(0)).accepted
        True
    """
    return climb(metric, pair, examples, level=level, resamples=resamples, generator=generator)[1]


def climb(
    metric: Metric,
    candidates: Sequence[Tensor | torch.nn.Module],
    examples: Examples,
    *,
    level: float = 0.9,
    among: int = 1,
    resamples: int = 500,
    generator: torch.Generator,
) -> tuple[int, Comparison]:
    """Which of the candidates, plainest first, is kept instead of the original.

    Each of k has to be better than the original, tested at 1/k of the error that `level` allows, so that all together
    err no more. Where a plainer one is, the next is kept instead if it is better than that in four of five resamples:
    to ask for as much again would lose most of what is found beyond a threshold, to ask for nothing would follow luck.

    Args:
        metric: What they are compared by.
        candidates: Outputs (n, ...) of the original and of one candidate or more, or the models themselves.
        examples: Rows that nothing was chosen on.
        level: Of the two-sided interval of the gain of a single candidate.
        among: How many candidates there were, if some have been turned down for other reasons.
        resamples: Of the rows, the same ones for all.
        generator: Where these come from.

    Returns:
        The candidate kept and the original against it; the last one, which is not accepted, if none is kept.

    Example:
        >>> from metricopt.metrics import mcr
        >>> truth, draw = torch.arange(400) % 2, torch.Generator().manual_seed(0)
        >>> right, half, wrong = truth * 2.0 - 1, torch.ones(400), 1 - truth * 2.0
        >>> data = Examples(torch.zeros(400, 1), truth)
        >>> climb(mcr(), [wrong, half, right], data, generator=draw)[0]
        2
        >>> climb(mcr(), [wrong, half, half], data, generator=draw)[0]  # the third is no better than the second
        1
    """
    whole, resampled = _bootstrap(_evaluator(metric, candidates, examples), len(examples), resamples, generator)
    each = 1 - (1 - level) / max(among, len(candidates) - 1)

    def between(one: int, other: int) -> Comparison:
        return _compared(metric, whole[[one, other]], resampled[[one, other]], level=each, examples=len(examples))

    kept = 0
    for candidate in range(1, len(candidates)):
        if between(0, candidate).accepted and (not kept or between(kept, candidate).confidence >= _SURE):
            kept = candidate
    shown = kept or len(candidates) - 1
    return shown, between(0, shown)


def check_kept(
    constraint: Constraint,
    pair: Sequence[Tensor | torch.nn.Module],
    examples: Examples,
    *,
    resamples: int = 500,
    generator: torch.Generator,
) -> Kept:
    """A constraint for original and new outputs, or models, on `examples`: it must hold for most resamples of them.

    Example:
        >>> truth = torch.arange(200) % 2
        >>> right, wrong = truth * 2.0 - 1, torch.ones(200)
        >>> data, draw = Examples(torch.zeros(200, 1), truth), torch.Generator().manual_seed(0)
        >>> check_kept(Constraint("accuracy", at_least=0.8), (right, wrong), data, generator=draw).holds
        False
    """
    evaluate = _evaluator(constraint.metric, pair, examples)
    before, after = evaluate(torch.arange(len(examples))[None])[:, 0].tolist()
    index = torch.randint(len(examples), (resamples, len(examples)), generator=generator)
    new = _evaluator(constraint.metric, pair[1:], examples)
    values = torch.cat([new(part)[0] for part in index.split(_REPLICATES_AT_ONCE)])
    values = values[~values.isnan()]
    tail = 1 - constraint.confidence if constraint.at_most is None else constraint.confidence
    bound = float(torch.quantile(values, tail)) if len(values) else math.nan
    holds = constraint.holds(bound) and constraint.holds(after)
    return Kept(constraint.text, before, after, bound, confidence=constraint.confidence, holds=holds)


def _evaluator(
    metric: Metric, candidates: Sequence[Tensor | torch.nn.Module], examples: Examples
) -> Callable[[Tensor], Tensor]:
    """A function from rows (replicates, n) to values (candidates, replicates)."""

    def of_one(candidate: Tensor | torch.nn.Module, index: Tensor) -> Tensor:
        if isinstance(candidate, torch.nn.Module):
            return torch.stack([_value(metric, candidate, examples.rows(rows)) for rows in index])
        groups = None if examples.groups is None else examples.groups[index]
        return metric.values(candidate[index], examples.targets[index], groups, failures="nan")

    return lambda index: torch.stack([of_one(candidate, index) for candidate in candidates])


def _value(metric: Metric, model: torch.nn.Module, examples: Examples) -> Tensor:
    try:
        value = metric.value_of_model(model, examples.inputs, examples.targets, examples.groups)
    except MetricError as error:
        warnings.warn(str(error), MetricFailureWarning, stacklevel=6)
        value = math.nan
    return torch.tensor(value, dtype=torch.float64)


def _bootstrap(
    evaluate: Callable[[Tensor], Tensor], rows: int, resamples: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Values on all rows, (candidates,), and on resamples of them, (candidates, resamples), NaN where it failed."""
    everything, retries = torch.arange(rows)[None], 0
    whole = evaluate(everything)[:, 0]
    while bool(whole.isnan().any()) and retries < min(_RETRIES, resamples - 1):
        whole, retries = torch.where(whole.isnan(), evaluate(everything)[:, 0], whole), retries + 1
    # Instead of resamples, so that a metric is asked as often whether it fails or not.
    index = torch.randint(rows, (resamples - retries, rows), generator=generator)
    return whole, torch.cat([evaluate(part) for part in index.split(_REPLICATES_AT_ONCE)], 1)


def _compared(metric: Metric, whole: Tensor, resampled: Tensor, *, level: float, examples: int) -> Comparison:
    """Two candidates by their values on all rows (2,) and on resamples (2, resamples)."""
    pairs = resampled[:, ~resampled.isnan().any(0)]
    gains = (pairs[1] - pairs[0]) * (1.0 if metric.goal == "max" else -1.0)
    # The k-th of n resamples has a share of k / (n + 1) below it; with too few of them nothing must be accepted.
    outside = int((1 - level) / 2 * (gains.numel() + 1) + 1e-9)
    ordered = gains.sort().values
    low, high = (float(ordered[outside - 1]), float(ordered[-outside])) if outside else (math.nan, math.nan)
    before, after = whole.tolist()
    return Comparison(
        before=before,
        after=after,
        interval=(low, high),
        level=level,
        confidence=float((gains > 0).sum()) / max(gains.numel(), 1),
        resamples=gains.numel(),
        examples=examples,
    )
