"""Fit and posterior over time for a whole batch in one call, far faster where members were observed at the same times.

With K = V diag(e) V^T every covariance K + ratio I has the same eigenvectors V. So one decomposition a length scale
serves all members that share their times, at all ratios, and the rest are a few products.
"""

import math

import torch
from torch import Tensor

from metricopt.gaussian_process.conditioning import (
    NUMBERS_AT_ONCE,
    TINY_VARIANCE,
    Hyperparameters,
    Posterior,
    posterior,
)
from metricopt.gaussian_process.fitting import Evidence, fit, most_likely

# What an eigenvector takes off a variance of 1 is at most its eigenvalue / ratio.
_SMALLEST_EIGENVALUE = 1e-14


def smooth(
    x: Tensor,
    y: Tensor,
    query: Tensor,
    *,
    length_scales: Tensor,
    noise_ratios: Tensor,
    noise_floor: float = 0.0,
) -> Posterior:
    """What `fit` and then `posterior` give, to rounding.

    Args:
        x: Times of the observations, (batch, n).
        y: Observations, NaN where missing, (batch, n).
        query: Times to predict, the same for all members, (queries,).
        length_scales: Candidates, (lengths,).
        noise_ratios: Candidates for noise variance / signal variance, (ratios,), 1e-6 or more.
        noise_floor: Known standard deviation of one observation; the noise is never taken to be less.

    Example:
        >>> x, y = torch.tensor([[0.0, 0.3, 0.9]]), torch.tensor([[0.5, 0.4, 0.2]])
        >>> grid = {"length_scales": torch.tensor([0.2, 1.0]), "noise_ratios": torch.tensor([1e-4, 0.1])}
        >>> known = smooth(x, y, torch.arange(10) / 10, **grid)
        >>> known.mean.shape, round(known.mean[0, 3].item(), 3)
        (torch.Size([1, 10]), 0.4)
    """
    grid = {"length_scales": length_scales, "noise_ratios": noise_ratios, "noise_floor": noise_floor}
    if math.isfinite(float(y.sum())) and bool((x == x[0]).all()):
        return smooth_together(x[0], y, query, **grid)[0]
    complete = torch.isfinite(y).all(1)
    first = complete.byte().argmax()
    together = complete & (x == x[first]).all(1)
    mean, std = torch.empty(2, len(y), len(query), dtype=torch.float64, device=y.device)
    if together.any():
        known, _ = smooth_together(x[first], y[together], query, **grid)
        mean[together], std[together] = known.mean, known.std
    at_once = max(1, NUMBERS_AT_ONCE // (x.shape[1] ** 2 * len(noise_ratios)))
    for apart in (~together).nonzero().squeeze(1).split(at_once):
        points, costs = x[apart].unsqueeze(-1), y[apart]
        known = posterior(points, costs, query.expand(len(apart), -1).unsqueeze(-1), fit(points, costs, **grid))
        mean[apart], std[apart] = known.mean, known.std
    return Posterior(mean, std)


def smooth_together(
    x: Tensor,
    y: Tensor,
    query: Tensor,
    *,
    length_scales: Tensor,
    noise_ratios: Tensor,
    noise_floor: float = 0.0,
) -> tuple[Posterior, Hyperparameters]:
    """The same for members that share all their times (n,) and miss no observation, and what was fitted.

    Example:
        >>> x, y = torch.tensor([0.0, 0.3, 0.9]), torch.tensor([[0.5, 0.4, 0.2], [0.1, 0.1, 0.3]])
        >>> grid = {"length_scales": torch.tensor([0.2, 1.0]), "noise_ratios": torch.tensor([1e-4, 0.1])}
        >>> known, found = smooth_together(x, y, torch.arange(10) / 10, **grid)
        >>> known.mean.shape, found.mean.shape
        (torch.Size([2, 10]), torch.Size([2]))
    """
    lengths, ratios, y = length_scales.double(), noise_ratios.double(), y.double()
    centre, ones = y.mean(1, keepdim=True), y.new_ones(1, len(x))
    values, vectors = torch.linalg.eigh(_correlation(_squares(x, x), lengths[:, None, None]))  # (lengths, n), ...
    precision = 1 / (values.clamp_min(0).unsqueeze(1) + ratios[:, None])  # (lengths, ratios, n)
    turned = vectors.mT @ torch.cat([y - centre, ones]).mT  # (lengths, n, batch + 1)
    evidence, grid = _evidence(turned, precision), (lengths, ratios)
    found, cell = most_likely(evidence, centre[:, 0], ones.sum(1), grid, noise_floor=noise_floor)
    rows, columns, member = cell // len(ratios), cell % len(ratios), torch.arange(len(y), device=y.device)
    residual = turned[rows, :, member] - (found.mean[:, None] - centre) * turned[rows, :, -1]
    weights = precision[rows, columns] * residual  # (batch, n)
    # In units of the signal: only as many different ones as there are grid points, whatever the number of members.
    variance = turned.new_ones(len(lengths), len(ratios), len(query))
    mean, apart = turned.new_empty(len(y), len(query)), _squares(query, x)
    tiny = (values < _SMALLEST_EIGENVALUE).sum(1).tolist()
    for row, members in enumerate(rows.argsort().split(rows.bincount(minlength=len(lengths)).tolist())):
        if len(members):
            cross = _correlation(apart, lengths[row])  # (queries, n)
            mean[members] = torch.addmm(found.mean[members, None], weights[members] @ vectors[row].mT, cross.mT)
            told = (cross @ vectors[row, :, tiny[row] :]).square_()  # (queries, rank)
            variance[row] -= precision[row, :, tiny[row] :] @ told.mT
    std = variance.clamp_min_(TINY_VARIANCE).sqrt_().flatten(0, 1)[cell].mul_(found.signal_variance.sqrt()[:, None])
    return Posterior(mean, std), found


def _squares(a: Tensor, b: Tensor) -> Tensor:
    """Squared distances (n, m) of numbers (n,) and (m,)."""
    return (a.double()[:, None] - b.double()).square_()


def _correlation(squares: Tensor, length: Tensor) -> Tensor:
    # e^-50 is nothing beside 1; less would take the processor's slow path for tiny numbers, here and in every product.
    return (squares * (-0.5 / length.square())).clamp_min_(-50).exp_()


def _evidence(turned: Tensor, precision: Tensor) -> Evidence:
    """On every grid point, from the observations and, last, ones in the eigenvectors' coordinates."""
    y, ones = turned[..., :-1], turned[..., -1:]
    own, shared, square = ((precision @ some).permute(2, 0, 1) for some in (y * y, y * ones, ones * ones))
    return Evidence(own, shared, square, -precision.log().sum(-1).unsqueeze(0))
