"""Ranking curves of a population, with equal scores taken together as one threshold."""

from dataclasses import dataclass

import torch
from torch import Tensor

from metricopt.metrics.counts import ratio


@dataclass(frozen=True)
class Curve:
    """Cumulative counts from the highest score down, float64, (population, n).

    Attributes:
        hits: Positives down to this row.
        rows: Examples down to this row.
        ends: Whether the row is the last of its score; the others are no thresholds.
        positives: Positives in all, (population, 1).
    """

    hits: Tensor
    rows: Tensor
    ends: Tensor
    positives: Tensor

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
        latest = torch.where(self.ends, counts, 0.0).cummax(1).values
        return counts - torch.nn.functional.pad(latest[:, :-1], (1, 0))


def curve(positives: Tensor, scores: Tensor) -> Curve:
    """Ranking curve of boolean `positives` by `scores`, both (population, n).

    Example:
        >>> result = curve(torch.tensor([[True, False, True]]), torch.tensor([[0.9, 0.5, 0.5]]))
        >>> result.hits.tolist(), result.ends.tolist()
        ([[1.0, 1.0, 2.0]], [[True, False, True]])
    """
    ranked, order = scores.sort(dim=1, descending=True, stable=True)
    hits = positives.gather(1, order).double().cumsum(1)
    rows = torch.arange(1, scores.shape[1] + 1, dtype=torch.float64, device=scores.device).expand_as(hits)
    last = torch.ones_like(ranked[:, :1], dtype=torch.bool)
    ends = torch.cat([ranked[:, 1:] != ranked[:, :-1], last], dim=1)
    return Curve(hits, rows, ends, hits[:, -1:])


def average_precision(positives: Tensor, scores: Tensor) -> Tensor:
    """Average precision of each member, 0 without positives, (population,).

    Example:
        >>> average_precision(torch.tensor([[True, False, True]]), torch.tensor([[0.9, 0.5, 0.1]])).tolist()
        [0.8333333333333333]
    """
    ranking = curve(positives, scores)
    gained = torch.where(ranking.ends, ranking.since_last_end(ranking.hits), 0.0)
    return ratio((gained * ranking.precision).sum(1), ranking.positives[:, 0])


def area_under_roc(positives: Tensor, scores: Tensor) -> Tensor:
    """Area under the ROC curve of each member, NaN without both classes, (population,).

    Example:
        >>> area_under_roc(torch.tensor([[True, False, True]]), torch.tensor([[0.9, 0.5, 0.5]])).tolist()
        [0.75]
    """
    ranking = curve(positives, scores)
    misses = ranking.rows - ranking.hits
    width = torch.where(ranking.ends, ranking.since_last_end(misses), 0.0)
    height = ranking.hits - ranking.since_last_end(ranking.hits) / 2  # of the trapezoid, in its middle
    return (width * height).sum(1) / (ranking.positives[:, 0] * misses[:, -1])
