"""FastAP (Cakir et al. 2019): average precision of a batch's own retrieval, on histograms of distances."""

import torch
from torch import Tensor

from metricopt.core.errors import DataError
from metricopt.losses.named import LOSSES
from metricopt.losses.similarity import mean_over_queries, similarities

_FARTHEST = 4.0  # the squared distance of opposite unit vectors


@LOSSES.add("fast_ap")
def fast_ap(outputs: Tensor, targets: Tensor, *, bins: int = 10) -> Tensor:
    """One minus the mean over queries of (1 / N+) sum_j h+_j H+_j / H_j, each example of the batch being a query.

    h+ and h are histograms of squared distances of unit vectors, in [0, 4], to the N+ others of the query's class and
    to all others; H+ and H are their running sums. A distance counts for the two nearest of the `bins` + 1 edges, by
    how near it is (triangular), so that the loss is differentiable. Examples without another of their class in the
    batch are no queries: draw several a class (`PerClass`).

    Args:
        outputs: Embeddings (n, d) of any length; they are normalised here.
        targets: Classes, (n,).
        bins: Q, widths into which [0, 4] is divided.

    Example:
        >>> outputs = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]])
        >>> [round(float(fast_ap(outputs, torch.tensor(y))), 4) for y in ([0, 0, 1, 1], [0, 1, 0, 1])]
        [0.0, 0.6667]
    """
    if bins < 1:
        raise DataError(f"bins is {bins}; expected at least 1, and 10 in the paper")
    cosine, alike, itself = similarities(outputs, targets, loss="fast_ap")
    distance = (2 - 2 * cosine).clamp(0, _FARTHEST)
    place = distance * (bins / _FARTHEST)
    edge = place.detach().floor().clamp(max=bins - 1)  # the nearest one below
    share = place - edge
    own = _histogram(edge.long(), share, alike.to(share), bins)  # h+
    every = _histogram(edge.long(), share, (~itself).to(share), bins)  # h
    above, total = own.cumsum(1), every.cumsum(1)  # H+, H
    precision = above / torch.where(total > 0, total, 1.0)
    count = alike.sum(1)
    average = (own * precision).sum(1) / count.clamp(min=1)
    return mean_over_queries(1 - average, count > 0)


def _histogram(edge: Tensor, share: Tensor, counted: Tensor, bins: int) -> Tensor:
    """Soft counts at each edge, (n, bins + 1): what lies above an edge counts for it and the next."""
    nothing = counted.new_zeros(len(counted), bins + 1)
    return nothing.scatter_add(1, edge, (1 - share) * counted).scatter_add(1, edge + 1, share * counted)
