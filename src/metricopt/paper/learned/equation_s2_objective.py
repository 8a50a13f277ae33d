"""Eq. S2: what a learned optimizer is trained for, as functions of the losses and costs along its path."""

import torch
from torch import Tensor
from torch.nn.functional import softplus

# A value network may predict a cost of nothing, or less, by which Eq. S2 would divide.
_LOWEST_COST = 1e-3


def metric_objective(costs: Tensor) -> Tensor:
    """L_metric of Eq. S2, (...,): mean of log(1 + exp(beta (M_t - M_t') / M_t)), t' the best step before t.

    Args:
        costs: M_0 .. M_T, (..., steps + 1); beta is T / 2.

    Example:
        >>> still, falling = torch.tensor([0.5, 0.5, 0.5]), torch.tensor([0.5, 0.4, 0.3])
        >>> round(metric_objective(still).item(), 4), bool(metric_objective(falling) < metric_objective(still))
        (0.6931, True)
    """
    beta = (costs.shape[-1] - 1) / 2
    costs = costs.clamp_min(_LOWEST_COST)
    best_before = torch.cummin(costs, -1).values[..., :-1]
    now = costs[..., 1:]
    return softplus(beta * (now - best_before) / now).mean(-1)


def loss_objective(losses: Tensor, *, epsilon: float = 1e-4) -> Tensor:
    """L_loss of Eq. S2, (...,): mean of log(l_t + epsilon) - log(l_0 + epsilon) over t = 1 .. T.

    Args:
        losses: l_0 .. l_T, none of them negative, (..., steps + 1).
        epsilon: Keeps the logarithm of a loss of nothing finite.

    Example:
        >>> round(loss_objective(torch.tensor([1.0, 0.5, 0.25]), epsilon=0.0).item(), 4)
        -1.0397
    """
    logs = (losses + epsilon).log()
    return (logs[..., 1:] - logs[..., :1]).mean(-1)


def optimizer_objective(losses: Tensor, costs: Tensor | None, *, weight: float = 50.0) -> Tensor:
    """L_opt = lambda L_metric + L_loss (Eq. S2), (...,); without costs L_loss alone.

    Example:
        >>> losses, costs = torch.tensor([1.0, 0.5]), torch.tensor([0.5, 0.5])
        >>> torch.allclose(optimizer_objective(losses, costs, weight=2.0),
        ...                2 * metric_objective(costs) + loss_objective(losses))
        True
    """
    return loss_objective(losses) if costs is None else weight * metric_objective(costs) + loss_objective(losses)
