"""Eq. 2: regression that knows its uncertainty, plus an ordinal embedding of the metric.

Every function takes leading batch dimensions, so that a stack of networks or of tasks is one computation.
"""

import torch
from torch import Tensor
from torch.nn.functional import softplus


def regression_loss(values: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """L_regress of Eq. 2, (...,): absolute errors weighted by 1/s_t, the weights summing to one.

    Example:
        >>> regression_loss(torch.tensor([0.5, 0.2]), torch.tensor([0.4, 0.2]), torch.tensor([1.0, 3.0]))
        tensor(0.0750)
    """
    weight = 1 / std
    return (weight * (values - mean).abs()).sum(-1) / weight.sum(-1)


def fisher_ratio(mean: Tensor, std: Tensor) -> Tensor:
    """r_tt' = (M_t - M_t')^2 / (s_t^2 + s_t'^2), (..., n, n): how surely two metrics differ.

    Example:
        >>> fisher_ratio(torch.tensor([0.0, 2.0]), torch.tensor([1.0, 1.0]))
        tensor([[0., 2.],
                [2., 0.]])
    """
    difference = mean.unsqueeze(-1) - mean.unsqueeze(-2)
    variance = std.square()
    return difference.square() / (variance.unsqueeze(-1) + variance.unsqueeze(-2))


def hard_pairs(distance: Tensor, ratio: Tensor, *, threshold: float = 2.0) -> tuple[Tensor, Tensor, Tensor]:
    """Each anchor's farthest lookalike (r < 2) and nearest stranger (r >= 2).

    Returns:
        Their indices t_p and t_n, (..., n), and which anchors have both; the indices of the others mean nothing.

    Example:
        >>> ratio = torch.tensor([[0.0, 1.0, 9.0], [1.0, 0.0, 9.0], [9.0, 9.0, 0.0]])
        >>> distance = torch.tensor([[0.0, 5.0, 7.0], [5.0, 0.0, 3.0], [7.0, 3.0, 0.0]])
        >>> farthest, nearest, usable = hard_pairs(distance, ratio)
        >>> usable.tolist(), farthest[usable].tolist(), nearest[usable].tolist()
        ([True, True, False], [1, 0], [2, 2])
    """
    n = distance.shape[-1]
    same = (ratio < threshold) & ~torch.eye(n, dtype=torch.bool, device=distance.device)
    other = ratio >= threshold
    farthest = distance.masked_fill(~same, -torch.inf).argmax(-1)
    nearest = distance.masked_fill(~other, torch.inf).argmin(-1)
    return farthest, nearest, same.any(-1) & other.any(-1)


def ordinal_loss(embedding: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """L_oe of Eq. 2, (...,): log(1 + exp(-(D_neg - D_pos))) averaged over the anchors that have a triplet.

    Example:
        >>> mean, std = torch.tensor([0.1, 0.1, 0.9]), torch.full((3,), 0.01)
        >>> ordered, mixed = torch.tensor([[0.0], [0.0], [4.0]]), torch.tensor([[0.0], [4.0], [0.0]])
        >>> bool(ordinal_loss(ordered, mean, std) < ordinal_loss(mixed, mean, std))
        True
    """
    with torch.no_grad():  # mining chooses; gradients flow through the chosen distances only
        positive, negative, usable = hard_pairs(torch.cdist(embedding, embedding), fisher_ratio(mean, std))
    closeness = _distance_to(embedding, positive) - _distance_to(embedding, negative)
    return (softplus(closeness) * usable).sum(-1) / usable.sum(-1).clamp_min(1)


def value_loss(
    values: Tensor, embedding: Tensor, mean: Tensor, std: Tensor, *, gamma: float = 10.0, ordinal: float = 1.0
) -> Tensor:
    """L_v = gamma * L_regress + L_oe (Eq. 2), (...,); `ordinal` = 0 leaves L_oe out (the paper's Figure 3).

    Example:
        >>> mean, std = torch.tensor([0.25, 0.75]), torch.full((2,), 0.1)
        >>> float(value_loss(mean + 0.5, torch.zeros(2, 16), mean, std, gamma=10.0, ordinal=0.0))
        5.0
    """
    loss = gamma * regression_loss(values, mean, std)
    return loss + ordinal * ordinal_loss(embedding, mean, std) if ordinal else loss


def _distance_to(embedding: Tensor, index: Tensor) -> Tensor:
    """D_tt' of each row t and row t' = index[t], (..., n)."""
    other = torch.gather(embedding, -2, index.unsqueeze(-1).expand_as(embedding))
    # The root has no finite gradient at zero, where equal embeddings are.
    return ((embedding - other).square().sum(-1) + 1e-12).sqrt()
