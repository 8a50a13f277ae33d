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
        D_pos and D_neg, (..., n), both 0 where there is no triplet, and which anchors have one.

    Example:
        >>> ratio = torch.tensor([[0.0, 1.0, 9.0], [1.0, 0.0, 9.0], [9.0, 9.0, 0.0]])
        >>> distance = torch.tensor([[0.0, 5.0, 7.0], [5.0, 0.0, 3.0], [7.0, 3.0, 0.0]])
        >>> for each in hard_pairs(distance, ratio):
        ...     print(each.tolist())
        [5.0, 5.0, 0.0]
        [7.0, 3.0, 0.0]
        [True, True, False]
    """
    n = distance.shape[-1]
    same = (ratio < threshold) & ~torch.eye(n, dtype=torch.bool, device=distance.device)
    other = ratio >= threshold
    farthest = distance.masked_fill(~same, -torch.inf).amax(-1)
    nearest = distance.masked_fill(~other, torch.inf).amin(-1)
    usable = same.any(-1) & other.any(-1)
    return farthest.masked_fill(~usable, 0.0), nearest.masked_fill(~usable, 0.0), usable


def ordinal_loss(embedding: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """L_oe of Eq. 2, (...,): log(1 + exp(-(D_neg - D_pos))) averaged over the anchors that have a triplet.

    Example:
        >>> mean, std = torch.tensor([0.1, 0.1, 0.9]), torch.full((3,), 0.01)
        >>> ordered, mixed = torch.tensor([[0.0], [0.0], [4.0]]), torch.tensor([[0.0], [4.0], [0.0]])
        >>> bool(ordinal_loss(ordered, mean, std) < ordinal_loss(mixed, mean, std))
        True
    """
    distance = _distances(embedding)  # (..., n, n)
    positive, negative, usable = hard_pairs(distance, fisher_ratio(mean, std))
    losses = softplus(positive - negative) * usable
    return losses.sum(-1) / usable.sum(-1).clamp_min(1)


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


def _distances(embedding: Tensor) -> Tensor:
    # torch.cdist has no finite gradient at distance zero, which every diagonal has.
    squared = (embedding.unsqueeze(-2) - embedding.unsqueeze(-3)).square().sum(-1)
    return (squared + 1e-12).sqrt()
