"""The same regression where every point is one of the steps 0, 1, ..., T - 1 of a path: far less work for a population.

Over the whole path a kernel of a long length scale has a low rank: it is F F^T to twelve digits, with few columns in
F (T, rank). These features are common to all members, so that a member's system of its n observations becomes a
smaller one of the weights w of the function F w. For short length scales it remains a system of observations.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from metricopt.gaussian_process.conditioning import (
    NUMBERS_AT_ONCE,
    TINY_VARIANCE,
    Hyperparameters,
    Posterior,
    cholesky,
    whitened,
)
from metricopt.gaussian_process.fitting import Centred, Evidence, most_likely, quadratic
from metricopt.gaussian_process.systems import solved

# Of the kernel between the nodes: eigenvalues below it change no correlation by more than 1e-12.
_SMALLEST_EIGENVALUE = 1e-11
# Of the number of observations: a rank above it saves less than finding the features costs.
_LOW_RANK = 0.7


def smooth(
    observed: Tensor,
    y: Tensor,
    *,
    steps: int,
    length_scales: Tensor,
    noise_ratios: Tensor,
    noise_floor: float = 0.0,
) -> tuple[Posterior, Hyperparameters]:
    """What `fit` and then `posterior` give at every step of a path, to rounding.

    Args:
        observed: Steps at which there are observations, (batch, n).
        y: Observations, NaN where missing, (batch, n).
        steps: T; step t is the point t / T.
        length_scales: Candidates from short to long, (lengths,).
        noise_ratios: Candidates for noise variance / signal variance, (ratios,), 1e-6 or more.
        noise_floor: Known standard deviation of one observation; the noise is never taken to be less.

    Example:
        >>> observed, y = torch.tensor([[0, 3, 9]]), torch.tensor([[0.5, 0.4, 0.2]])
        >>> grid = {"length_scales": torch.tensor([0.2, 1.0]), "noise_ratios": torch.tensor([1e-4, 0.1])}
        >>> known, found = smooth(observed, y, steps=10, **grid)
        >>> known.mean.shape, round(known.mean[0, 3].item(), 3)
        (torch.Size([1, 10]), 0.4)
    """
    lengths, ratios = length_scales.double(), noise_ratios.double()
    data = Centred.of(y, torch.isfinite(y))
    short = sum(expected_rank(length) > _LOW_RANK * y.shape[1] for length in lengths.tolist())
    maps = [features(steps, length) for length in lengths[short:]]
    parts = [_among_observations(observed.double() / steps, lengths[:short], data, ratios)] if short else []
    parts += [_among_weights(some[observed], data, ratios) for some in maps]
    found, row = most_likely(Evidence.joined(parts), data, (lengths, ratios), noise_floor=noise_floor)
    known = _Known.of(observed, data, found)
    mean, variance = known.residual.new_empty(2, len(y), steps)
    left = torch.ones_like(row, dtype=torch.bool)
    for index, some in enumerate(maps, short):
        members = (row == index).nonzero().squeeze(1)
        # Few of them pay less for their own kernels than for all pairs of features.
        if len(members) * y.shape[1] > some.shape[1] ** 2:
            mean[members], variance[members] = _from_weights(known.rows(members), some)
            left[members] = False
    members = left.nonzero().squeeze(1)
    if len(members):
        mean[members], variance[members] = _from_observations(known.rows(members), steps)
    std = (variance.clamp_min_(TINY_VARIANCE) * found.signal_variance[:, None]).sqrt_()
    return Posterior(mean + found.mean[:, None], std), found


def expected_rank(length_scale: float) -> float:
    """About the number of columns of `features`.

    Example:
        >>> round(expected_rank(1.0)), round(expected_rank(0.1))
        (8, 30)
    """
    return 6 + 2.4 / length_scale


def features(steps: int, length_scale: Tensor) -> Tensor:
    """F (steps, rank) of a kernel F F^T over all steps, from the kernel's eigenvectors at a few nodes (Nystroem).

    Example:
        >>> some = features(50, torch.tensor(0.5))
        >>> round((some[3] @ some[8]).item(), 9) == round(math.exp(-0.5 * (0.1 / 0.5) ** 2), 9)
        True
    """
    nodes = 10 + math.ceil(3.5 / length_scale.item())
    every = torch.arange(max(steps, nodes), dtype=torch.float64, device=length_scale.device)
    # Chebyshev's: denser at the ends of the path, where equally spaced ones would predict badly.
    near = (steps - 1) / steps * (0.5 - 0.5 * torch.cos(math.pi / nodes * (every[:nodes] + 0.5)))
    values, vectors = torch.linalg.eigh(_rbf(near, near, length_scale))
    rank = int((values > _SMALLEST_EIGENVALUE).sum())
    return _rbf(every[:steps] / steps, near, length_scale) @ (vectors[:, -rank:] * values[-rank:].rsqrt())


def _rbf(a: Tensor, b: Tensor, length_scale: Tensor) -> Tensor:
    """Correlation of numbers (..., n) and (..., m) for length scales (...,)."""
    scale = (math.sqrt(0.5) / length_scale.double())[..., None]
    # Scaled before and not after the subtraction: a pass less over the larger matrix.
    apart = (a * scale).unsqueeze(-1) - (b * scale).unsqueeze(-2)
    return apart.square_().neg_().exp_()


def _among_observations(points: Tensor, lengths: Tensor, data: Centred, ratios: Tensor) -> Evidence:
    """From a system of its observations for every member, length and ratio."""
    correlation = _rbf(points, points, lengths[:, None])  # (lengths, batch, n, n)
    if not data.mask.all():
        ones = data.right[..., 1]
        correlation *= ones.unsqueeze(-1) * ones.unsqueeze(-2)
    products, logarithm = solved(correlation.flatten(0, 1), data.right.repeat(len(lengths), 1, 1), ratios)
    shape = (len(lengths), len(points), len(ratios))
    products, logarithm = products.reshape(3, *shape).transpose(1, 2), logarithm.reshape(shape).transpose(0, 1)
    return _evidence(products, logarithm, points.shape[1], data, ratios)


def _among_weights(rows: Tensor, data: Centred, ratios: Tensor) -> Evidence:
    """From a system of its weights for every member and ratio, by the matrix inversion lemma."""
    rows = rows * data.right[..., 1:]  # (batch, n, rank)
    products, logarithm = solved(rows.mT @ rows, rows.mT @ data.right, ratios)
    products = (torch.stack(quadratic(data.right)).unsqueeze(-1) - products) / ratios
    return _evidence(products.unsqueeze(2), logarithm.unsqueeze(1), rows.shape[-1], data, ratios)


def _evidence(products: Tensor, logarithm: Tensor, unknowns: int, data: Centred, ratios: Tensor) -> Evidence:
    # A missing observation has left its ratio on the diagonal; one beyond the rank lacks it.
    own, shared, ones = products
    return Evidence(own, shared, ones, logarithm + (data.count[:, None, None] - unknowns) * ratios.log())


@dataclass(frozen=True)
class _Known:
    """What the posterior of some members depends on; variances are in units of the signal's."""

    observed: Tensor  # (batch, n)
    there: Tensor  # 1 for an observation, 0 for a missing one, (batch, n)
    residual: Tensor  # (batch, n)
    ratio: Tensor  # (batch,)
    length_scale: Tensor  # (batch,)

    @classmethod
    def of(cls, observed: Tensor, data: Centred, found: Hyperparameters) -> "_Known":
        centred, there = data.right.unbind(-1)
        residual = centred + (data.centre - found.mean)[:, None] * there
        return cls(observed, there, residual, found.noise_variance / found.signal_variance, found.length_scale)

    def rows(self, members: Tensor) -> "_Known":
        parts = (self.observed, self.there, self.residual, self.ratio, self.length_scale)
        return _Known(*(part[members] for part in parts))


def _from_observations(known: _Known, steps: int) -> tuple[Tensor, Tensor]:
    """Mean and variance at every step, (batch, steps) each."""
    points = known.observed.double() / steps
    every = torch.arange(steps, dtype=torch.float64, device=points.device) / steps
    there = known.there.unsqueeze(-1)
    root = _root(_rbf(points, points, known.length_scale) * there * there.mT, known.ratio)
    white = root @ (_rbf(points, every.expand(len(points), -1), known.length_scale) * there)  # (batch, n, steps)
    mean = white.mT @ (root @ known.residual.unsqueeze(-1))
    return mean.squeeze(-1), 1 - white.square_().sum(-2)


def _from_weights(known: _Known, some: Tensor) -> tuple[Tensor, Tensor]:
    """The same from features (steps, rank)."""
    rows = some[known.observed] * known.there.unsqueeze(-1)  # (batch, n, rank)
    root = _root(rows.mT @ rows, known.ratio)
    covariance = root.mT @ root * known.ratio[:, None, None]  # of the weights, (batch, rank, rank)
    weights = root.mT @ (root @ (rows.mT @ known.residual.unsqueeze(-1)))
    # f^T C f as the product of all C with all pairs of features: one large product for the whole batch.
    first, second = torch.triu_indices(some.shape[1], some.shape[1], device=some.device)
    pairs = covariance[:, first, second] * (2 - (first == second).double())
    at_once = max(1, NUMBERS_AT_ONCE // len(first))
    variance = [pairs @ (part[first] * part[second]) for part in some.mT.contiguous().split(at_once, 1)]
    return weights.squeeze(-1) @ some.mT, torch.cat(variance, 1)


def _root(matrix: Tensor, ratio: Tensor) -> Tensor:
    """Lower triangular root of the inverse of each matrix (batch, n, n) with the ratio on its diagonal."""
    matrix.diagonal(dim1=-2, dim2=-1).add_(ratio[:, None])
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return whitened(cholesky(matrix), identity.expand_as(matrix))
