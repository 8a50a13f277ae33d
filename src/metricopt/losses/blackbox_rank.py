"""Ranks as a differentiable function: black-box differentiation (Vlastelica et al. 2020; Rolínek et al. 2020)."""

from typing import Any, final

import torch
from torch import Tensor

from metricopt.core.errors import DataError


def blackbox_rank(scores: Tensor, lam: float) -> Tensor:
    """Ranks along the last dimension, 1 for the highest score, with the gradient of an interpolation of them.

    Ranks rk(s) do not change under small changes of scores, so their true gradient is 0. In its place comes the slope
    between here and where the incoming gradient g points to: (rk(s + lam * g) - rk(s)) / lam. Among equal scores the
    first one ranks higher; -inf ranks last and may stand for what is left out.

    The ranks are plain, 1 to n. Rolínek et al. divide them by n, and their lambda is this `lam` / n.

    Args:
        scores: Of any shape (..., n).
        lam: How far the interpolation reaches, in scores per unit of gradient; above 0.

    Returns:
        Ranks in the type of the scores, (..., n). Safe under `torch.func.vmap`.

    Example:
        >>> scores = torch.tensor([0.3, 0.9, 0.5], requires_grad=True)
        >>> ranks = blackbox_rank(scores, lam=0.5)
        >>> ranks.tolist()
        [3.0, 1.0, 2.0]
        >>> (-ranks[1]).backward()  # worse for the best one: lowered by 0.5 it would be second, and the second first
        >>> scores.grad.tolist()
        [0.0, 2.0, -2.0]
    """
    if not lam > 0:
        raise DataError(f"lam is {lam}; expected a positive number, how far the interpolation of ranks reaches")
    ranks = _BlackBoxRank.apply(scores, float(lam))
    assert isinstance(ranks, Tensor)
    return ranks


def blackbox_ap(scores: Tensor, positive: Tensor, *, lam: float, margin: float) -> Tensor:
    """Average precision of scores (n,), differentiated through its ranks; 0 without positives.

    Precision at a positive is its rank among positives over its rank among all; the former is held constant, as in the
    authors' code. Before ranking, positives lose half the margin and the others gain it; the authors' margin is random.

    Args:
        scores: Of one class.
        positive: Which are of the class, (n,).
        lam: Lambda for ranks divided by n, as in the authors' code.
        margin: In units of scores.

    Example:
        >>> float(blackbox_ap(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([True, False, True]), lam=1.0, margin=0.0))
        0.8333...
    """
    pushed = scores - margin * (positive.to(scores) - 0.5)
    among_all = blackbox_rank(pushed, lam * scores.shape[-1])  # of plain ranks
    among_positives = _ranks(pushed.detach().masked_fill(~positive, -torch.inf))
    precision = torch.where(positive, among_positives / among_all, 0.0)
    return precision.sum() / positive.sum().clamp(min=1)


@final
class _BlackBoxRank(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(scores: Tensor, lam: float) -> Tensor:  # noqa: ARG004  # pyright: ignore[reportIncompatibleMethodOverride]
        return _ranks(scores)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        scores, ctx.lam = inputs
        ctx.save_for_backward(scores, output)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        scores, ranks = ctx.saved_tensors
        return (_ranks(scores + ctx.lam * slope) - ranks) / ctx.lam, None


def _ranks(scores: Tensor) -> Tensor:
    order = scores.argsort(dim=-1, descending=True, stable=True)
    return (order.argsort(dim=-1) + 1).to(scores.dtype)
