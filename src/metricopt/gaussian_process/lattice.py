"""The same regression where every point is one of the steps 0, 1, ..., T - 1 of a path: far less work for a population.

Over the whole path a kernel of a long length scale has a low rank: it is F F^T to twelve digits, with few columns in
F (T, rank). These features are common to all members, so that a member's system of its n observations becomes a
smaller one of the weights w of the function F w. For short length scales it remains a system of observations.
"""

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
from metricopt.gaussian_process.contest import Contest
from metricopt.gaussian_process.features import expected_rank, features, with_every_step
from metricopt.gaussian_process.fitting import Centred, Evidence, most_likely, quadratic
from metricopt.gaussian_process.systems import solved

# Of the number of observations: a rank above it saves less than finding the features costs.
_LOW_RANK = 0.7
# Members from which on features that all of them share pay.
_POPULATION = 8


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
    few = len(y) < _POPULATION
    short = sum(few or expected_rank(length) > _LOW_RANK * y.shape[1] for length in lengths.tolist())
    maps = [features(steps, length) for length in lengths[short:]]
    long = [_among_weights(_rows(some, observed, data.right[..., 1]), data, ratios) for some in maps]
    contest = Contest(observed.double() / steps, data, ratios, noise_floor)
    found, row = most_likely(contest.joined(lengths[:short], long), data, (lengths, ratios), noise_floor=noise_floor)
    mean, variance = _every_step(_Known.of(observed, data, found, row), lengths, steps, [None] * short + maps)
    std = (variance.clamp_min_(TINY_VARIANCE) * found.signal_variance[:, None]).sqrt_()
    return Posterior(mean + found.mean[:, None], std), found


def _among_weights(rows: Tensor, data: Centred, ratios: Tensor) -> Evidence:
    """From a system of its weights for every member and ratio, by the matrix inversion lemma."""
    products, logarithm = solved(rows.mT @ rows, rows.mT @ data.right, ratios)
    products = (torch.stack(quadratic(data.right)).unsqueeze(-1) - products) / ratios
    own, shared, ones = products.unsqueeze(2)
    # Each observation beyond the rank has its noise alone.
    beyond = (data.count[:, None] - rows.shape[-1]) * ratios.log()
    return Evidence(own, shared, ones, (logarithm + beyond).unsqueeze(1))


def _rows(some: Tensor, observed: Tensor, there: Tensor) -> Tensor:
    """Features at the observed steps, zero where the observation is missing, (batch, n, rank)."""
    rows = some.index_select(0, observed.flatten()).view(*observed.shape, -1)
    return rows.mul_(there.unsqueeze(-1))


@dataclass(frozen=True)
class _Known:
    """What the posterior of some members depends on; variances are in units of the signal's."""

    observed: Tensor  # (batch, n)
    there: Tensor  # 1 for an observation, 0 for a missing one, (batch, n)
    residual: Tensor  # (batch, n)
    ratio: Tensor  # (batch,)
    row: Tensor  # of the length scale, (batch,)

    @classmethod
    def of(cls, observed: Tensor, data: Centred, found: Hyperparameters, row: Tensor) -> "_Known":
        centred, there = data.right.unbind(-1)
        residual = centred + (data.centre - found.mean)[:, None] * there
        return cls(observed, there, residual, found.noise_variance / found.signal_variance, row)

    def rows(self, members: Tensor) -> "_Known":
        parts = (self.observed, self.there, self.residual, self.ratio, self.row)
        return _Known(*(part[members] for part in parts))


def _every_step(known: _Known, lengths: Tensor, steps: int, maps: list[Tensor | None]) -> tuple[Tensor, Tensor]:
    """Mean and variance at every step, (batch, steps) each, from the features of a member's length scale, if any."""
    at_once = max(1, NUMBERS_AT_ONCE // (known.observed.shape[1] * steps))
    left = torch.ones_like(known.row, dtype=torch.bool)
    if len(left) <= at_once and maps[-1] is None:
        return _from_observations(known, lengths, steps)
    mean, variance = known.residual.new_empty(2, len(left), steps)
    for index, some in enumerate(maps):
        # Few members pay less for their own kernels than for all pairs of features.
        members = (known.row == index).nonzero().squeeze(1)
        if some is not None and members.numel() * known.observed.shape[1] > some.shape[1] ** 2:
            mean[members], variance[members] = _from_weights(known.rows(members), some)
            left[members] = False
    for members in left.nonzero().squeeze(1).split(at_once) if left.any() else ():
        mean[members], variance[members] = _from_observations(known.rows(members), lengths, steps)
    return mean, variance


def _from_observations(known: _Known, lengths: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """The same from each member's own kernels."""
    there = known.there.unsqueeze(-1)
    cross = with_every_step(known.observed, steps, lengths, known.row)  # (batch, n, steps)
    among = cross.gather(2, known.observed.unsqueeze(1).expand(-1, known.observed.shape[1], -1))
    root = _root(among * there * there.mT, known.ratio) * there.mT
    weights = (root @ known.residual.unsqueeze(-1)).mT @ root  # (batch, 1, n)
    told = torch.cat([root, weights], 1) @ cross  # (batch, n + 1, steps)
    return told[:, -1], 1 - told[:, :-1].square_().sum(1)


def _from_weights(known: _Known, some: Tensor) -> tuple[Tensor, Tensor]:
    """The same from features (steps, rank) that all members share."""
    rows = _rows(some, known.observed, known.there)
    root = _root(rows.mT @ rows, known.ratio)
    covariance = root.mT @ root * known.ratio[:, None, None]  # of the weights, (batch, rank, rank)
    weights = root.mT @ (root @ (rows.mT @ known.residual.unsqueeze(-1)))
    # f^T C f as the product of all C with all pairs of features: one large product for the whole batch.
    at_once = max(1, NUMBERS_AT_ONCE // some.shape[1] ** 2)
    parts = some.mT.contiguous().split(at_once, 1)  # (rank, at_once)
    variance = [covariance.flatten(1) @ (part.unsqueeze(1) * part).flatten(0, 1) for part in parts]
    return weights.squeeze(-1) @ some.mT, torch.cat(variance, 1)


def _root(matrix: Tensor, ratio: Tensor) -> Tensor:
    """Lower triangular root of the inverse of each matrix (batch, n, n) with the ratio on its diagonal."""
    matrix.diagonal(dim1=-2, dim2=-1).add_(ratio[:, None])
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return whitened(cholesky(matrix), identity.expand_as(matrix))
