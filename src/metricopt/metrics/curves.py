"""Ranking curves of a population, with equal scores taken together as one threshold."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from metricopt.metrics.counts import ratio

_NUMBERS_AT_ONCE = 2**17


@dataclass(frozen=True)
class Curve:
    """Cumulative counts from the highest score down, float64, (population, n).

    Attributes:
        hits: Positives down to this row.
        rows: Examples down to this row.
        ends: Whether the row is the last of its score; the others are no thresholds.
        positives: Positives in all, (population, 1).
        distinct: Whether no two scores of a member are equal, so that every row is an end.
    """

    hits: Tensor
    rows: Tensor
    ends: Tensor
    positives: Tensor
    distinct: bool = False

    @property
    def precision(self) -> Tensor:
        """Precision down to each row, (population, n)."""
        return self.hits / self.rows

    @property
    def recall(self) -> Tensor:
        """Recall down to each row, 0 without positives, (population, n)."""
        return ratio(self.hits, self.positives.expand_as(self.hits))

    def since_last_end(self, counts: Tensor) -> Tensor:
        """How much cumulative `counts` grew since the threshold before, (population, n)."""
        # Cumulative counts never fall, so the largest at an end so far is the one at the latest end.
        latest = counts if self.distinct else torch.where(self.ends, counts, 0.0).cummax(1).values
        return counts - torch.nn.functional.pad(latest[:, :-1], (1, 0))


def curve(positives: Tensor, scores: Tensor) -> Curve:
    """Ranking curve of boolean `positives` by `scores`, both (population, n).

    Example:
        >>> result = curve(torch.tensor([[True, False, True]]), torch.tensor([[0.9, 0.5, 0.5]]))
        >>> result.hits.tolist(), result.ends.tolist()
        ([[1.0, 1.0, 2.0]], [[True, False, True]])
    """
    order = _from_the_top(scores)
    ranked = scores.gather(1, order)
    hits = positives.gather(1, order).double().cumsum(1)
    rows = torch.arange(1, scores.shape[1] + 1, dtype=torch.float64, device=scores.device).expand_as(hits)
    last = torch.ones_like(ranked[:, :1], dtype=torch.bool)
    ends = torch.cat([ranked[:, 1:] != ranked[:, :-1], last], dim=1)
    return Curve(hits, rows, ends, hits[:, -1:], distinct=bool(ends.all()))


def _from_the_top(scores: Tensor) -> Tensor:
    """Rows of each member by falling score, (population, n)."""
    if scores.device.type != "cpu":
        return scores.argsort(dim=1, descending=True)
    # NumPy's sorting uses the processor's vector instructions and takes a fifth of torch's time.
    return torch.from_numpy(np.argsort(-scores.numpy(), axis=1))


def _in_parts(measure: Callable[[Curve], Tensor], positives: Tensor, scores: Tensor) -> Tensor:
    """`measure` of each member's curve, with as many members at once as stay in the processor's own memory."""
    at_once = max(1, _NUMBERS_AT_ONCE // scores.shape[1])
    parts = zip(positives.split(at_once), scores.split(at_once), strict=True)
    return torch.cat([measure(curve(*part)) for part in parts])


def average_precision(positives: Tensor, scores: Tensor) -> Tensor:
    """Average precision of each member, 0 without positives, (population,).

    Example:
        >>> average_precision(torch.tensor([[True, False, True]]), torch.tensor([[0.9, 0.5, 0.1]])).tolist()
        [0.8333333333333333]
    """
    return _in_parts(_average_precision, positives, scores)


def _average_precision(ranking: Curve) -> Tensor:
    gained = ranking.since_last_end(ranking.hits)
    gained = gained if ranking.distinct else torch.where(ranking.ends, gained, 0.0)
    return ratio((gained * ranking.precision).sum(1), ranking.positives[:, 0])


def area_under_roc(positives: Tensor, scores: Tensor) -> Tensor:
    """Area under the ROC curve of each member, NaN without both classes, (population,).

    Example:
        >>> area_under_roc(torch.tensor([[True, False, True]]), torch.tensor([[0.9, 0.5, 0.5]])).tolist()
        [0.75]
    """
    return _in_parts(_area_under_roc, positives, scores)


def _area_under_roc(ranking: Curve) -> Tensor:
    misses = ranking.rows - ranking.hits
    width = torch.where(ranking.ends, ranking.since_last_end(misses), 0.0)
    height = ranking.hits - ranking.since_last_end(ranking.hits) / 2  # of the trapezoid, in its middle
    return (width * height).sum(1) / (ranking.positives[:, 0] * misses[:, -1])
