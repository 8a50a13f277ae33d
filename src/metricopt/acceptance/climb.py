"""Which of several candidates is kept instead of the original."""

from collections.abc import Sequence
from typing import Any

import torch

from metricopt.acceptance.comparison import Comparison
from metricopt.acceptance.evidence import Evidence
from metricopt.acceptance.gathering import gathered
from metricopt.data.dataset import Data
from metricopt.metrics import Metric

_SURE = 0.8  # share of the resamples in which one candidate is better than a plainer one
_LIKELIER = 0.5  # the same where the luck of either is allowed for


def climb(
    metric: Metric, found: Evidence, *, examples: int, level: float = 0.9, among: int = 1
) -> tuple[int, Comparison]:
    """Which of the candidates, plainest first, is kept instead of the original, which is the first of the evidence.

    Each of k has to be better than the original, tested at 1/k of the error that `level` allows, so that all together
    err no more. Where a plainer one is, the next is kept instead if it is better than that in four of five resamples:
    to ask for as much again would lose most of what is found beyond a threshold, to ask for nothing would follow luck.
    Where luck is allowed for, they are stages of one search: each is tested at the whole error, and the later one is
    kept if it is the likelier to be better.

    Args:
        metric: What they are compared by.
        found: Values of the original and of one candidate or more on the same choices of rows.
        examples: Rows that nothing was chosen on.
        level: Of the two-sided interval of the gain of a single candidate.
        among: How many candidates there were, if some have been turned down for other reasons.

    Returns:
        The candidate kept and the original against it; the last one, which is not accepted, if none is kept.

    Example:
        >>> from metricopt.data.dataset import Examples
        >>> from metricopt.metrics import mcr
        >>> truth, draw = torch.arange(400) % 2, torch.Generator().manual_seed(0)
        >>> right, half, wrong = truth * 2.0 - 1, torch.ones(400), 1 - truth * 2.0
        >>> data = Examples(torch.zeros(400, 1), truth)
        >>> evidence = gathered(mcr(), [wrong, half, right], data, resamples=None, generator=draw)
        >>> climb(mcr(), evidence, examples=400)[0]
        2
    """
    sign = 1.0 if metric.goal == "max" else -1.0
    candidates = len(found.whole)
    # Stages of one search, whose luck is allowed for as if nothing but luck had chosen them, do not err each anew.
    judged, sure = (1, _LIKELIER) if found.luck else (max(among, candidates - 1), _SURE)
    each = 1 - (1 - level) / judged

    def between(one: int, other: int) -> Comparison:
        gains = found.gains(one, other, sign=sign)
        return Comparison(
            before=float(found.whole[one]),
            after=float(found.whole[other]),
            interval=found.interval(one, other, sign=sign, level=each),
            level=each,
            confidence=found.confidence(one, other, sign=sign),
            resamples=gains.numel(),
            examples=examples,
            judged=judged,
        )

    kept = 0
    for candidate in range(1, candidates):
        if between(0, candidate).accepted and (not kept or between(kept, candidate).confidence >= sure):
            kept = candidate
    shown = kept or candidates - 1
    return shown, between(0, shown)


def compare(
    metric: Metric,
    pair: Sequence[Any],
    data: Data,
    *,
    level: float = 0.9,
    resamples: int | None = None,
    generator: torch.Generator,
) -> Comparison:
    """Original against new predictions on `data`; rows are resampled together, so the test is paired.

    For a metric computed on the model itself, the models instead of their predictions. Accepting when the two-sided
    interval of `level` 0.9 is above zero is a one-sided test at 5%.

    Example:
        >>> from metricopt.data.dataset import Examples
        >>> from metricopt.metrics import mcr
        >>> truth = torch.arange(200) % 2
        >>> right, wrong = truth * 2.0 - 1, torch.ones(200)
        >>> data = Examples(torch.zeros(200, 1), truth)
        >>> compare(mcr(), (wrong, right), data, generator=torch.Generator().manual_seed(0)).accepted
        True
    """
    found = gathered(metric, pair, data, resamples=resamples, generator=generator)
    return climb(metric, found, examples=len(data), level=level)[1]
