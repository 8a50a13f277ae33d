"""Kernel matrices, their Cholesky factors, the likelihood and the posterior, all for a whole batch at once."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from metricopt.core.errors import DataError

# Relative to the mean of the diagonal; each rung is tried only by the members the rung before did not help.
JITTER_LADDER = (1e-12, 1e-10, 1e-8, 1e-6, 1e-4)
# Keeps the likelihood of exactly constant observations, and the gradient of the deviation at observed points, finite.
TINY_VARIANCE = 1e-12
# Matrices of more numbers are taken in parts: what leaves a processor's own memory is several times slower.
NUMBERS_AT_ONCE = 2**18


@dataclass(frozen=True)
class Hyperparameters:
    """Kernel and likelihood parameters, one of each for every member of the batch.

    Attributes:
        length_scale: Distance over which the function stays alike, (batch,).
        signal_variance: Variance of the function around its mean, positive, (batch,).
        noise_variance: Variance of one observation around the function, (batch,).
        mean: Constant prior mean, (batch,).
    """

    length_scale: Tensor
    signal_variance: Tensor
    noise_variance: Tensor
    mean: Tensor

    def rows(self, start: int, end: int) -> "Hyperparameters":
        """Those of some members."""
        parts = (self.length_scale, self.signal_variance, self.noise_variance, self.mean)
        return Hyperparameters(*(part[start:end] for part in parts))


@dataclass(frozen=True)
class Posterior:
    """What is known about the function itself (without observation noise) at the query points.

    Attributes:
        mean: Expected value, (batch, queries).
        std: Standard deviation, (batch, queries).
    """

    mean: Tensor
    std: Tensor


def rbf(a: Tensor, b: Tensor, length_scale: Tensor | float) -> Tensor:
    """Correlation exp(-|a - b|^2 / (2 length_scale^2)) of rows of `a` (..., n, dim) and `b` (..., m, dim).

    For one length scale per dimension, divide the inputs by them and pass 1.

    Args:
        a: Points.
        b: Other points.
        length_scale: One number, or one for every member of the batch, (...,).

    Example:
        >>> rbf(torch.zeros(1, 1, 1), torch.ones(1, 1, 1), 1.0).log().item()
        -0.5
    """
    scale = torch.as_tensor(length_scale, dtype=torch.float64, device=a.device)[..., None, None]
    # Thousands of small products take longer than the differences themselves.
    if a.shape[-1] == 1 and a.shape[-2] * b.shape[-2] <= 1024:
        apart = (a.double() - b.double().mT) / scale  # (..., n, m)
        return (apart * apart).mul_(-0.5).exp_()
    # Centred first: points far from the origin but near each other would lose their distance to rounding.
    centre = a.double().mean(-2, keepdim=True)
    a, b = (a - centre) / scale, (b - centre) / scale
    minus_a, minus_b = (-0.5 * part.square().sum(-1, keepdim=True) for part in (a, b))
    # a.b - |a|^2/2 - |b|^2/2 as one product: every pass over the large result counts.
    left = torch.cat([a, minus_a, torch.ones_like(minus_a)], -1)
    right = torch.cat([b, torch.ones_like(minus_b), minus_b], -1)
    return (left @ right.mT).exp_()


def cholesky(covariance: Tensor) -> Tensor:
    """Lower Cholesky factor of each matrix (..., n, n); members that fail get growing jitter, the others none.

    Example:
        >>> cholesky(torch.ones(2, 2, dtype=torch.float64)).shape
        torch.Size([2, 2])
    """
    factor, failed = torch.linalg.cholesky_ex(covariance)
    if not failed.any():
        return factor
    scale = covariance.diagonal(dim1=-2, dim2=-1).mean(-1)
    jitter = torch.zeros_like(scale)
    for rung in JITTER_LADDER:
        jitter = torch.where(failed > 0, rung * scale, jitter)  # members healed earlier keep their rung
        identity = torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
        factor, failed = torch.linalg.cholesky_ex(covariance + jitter[..., None, None] * identity)
        if not failed.any():
            return factor
    raise DataError(
        f"{int((failed > 0).sum())} of {failed.numel()} covariance matrices are not positive definite even with "
        f"relative jitter {JITTER_LADDER[-1]:g}; look for infinite or NaN inputs"
    )


def without_missing(covariance: Tensor, mask: Tensor) -> Tensor:
    """Covariance (..., n, n) in which masked-out observations are independent of all others, with unit variance.

    With a residual of zero they then change neither the posterior nor the likelihood, and shapes stay rectangular.

    Example:
        >>> without_missing(torch.ones(2, 2), torch.tensor([True, False]))
        tensor([[1., 0.],
                [0., 1.]])
    """
    both = mask.unsqueeze(-1) & mask.unsqueeze(-2)
    return torch.where(both, covariance, torch.diag_embed((~mask).to(covariance.dtype)))


def log_marginal_likelihood(covariance: Tensor, residual: Tensor, mask: Tensor | None = None) -> Tensor:
    """Log density of `residual` (..., n) under N(0, covariance), (...,); masked-out entries do not count.

    Args:
        covariance: Kernel matrix with the noise on its diagonal, (..., n, n).
        residual: Observations minus their prior mean.
        mask: True where there is an observation; by default where `residual` is finite.

    Example:
        >>> round(log_marginal_likelihood(torch.eye(2)[None], torch.zeros(1, 2)).item(), 4)  # -log(2 pi)
        -1.8379
    """
    mask = torch.isfinite(residual) if mask is None else mask
    factor = cholesky(without_missing(covariance.double(), mask))
    white = whitened(factor, torch.where(mask, residual.double(), 0.0).unsqueeze(-1)).squeeze(-1)
    return -0.5 * (white.square().sum(-1) + log_determinant(factor) + mask.sum(-1).double() * math.log(2 * math.pi))


def condition(covariance: Tensor, cross: Tensor, prior_variance: Tensor, residual: Tensor) -> Posterior:
    """Posterior of a zero-mean process from its kernel matrices, whatever the kernel.

    Args:
        covariance: Between observations, noise on the diagonal, (batch, n, n).
        cross: Between observations and queries, (batch, n, queries).
        prior_variance: Of the function at the queries, broadcastable to (batch, queries).
        residual: Observations minus their prior mean, NaN where missing, (batch, n).

    Example:
        >>> known = condition(torch.eye(1)[None], torch.ones(1, 1, 1), torch.ones(1, 1), torch.tensor([[0.3]]))
        >>> round(known.mean.item(), 6), known.std.item() < 1e-5
        (0.3, True)
    """
    white_cross, white = _whitened_system(covariance, cross, residual)
    mean = (white_cross.mT @ white).squeeze(-1)
    # In place, unless a gradient will need it: it is the largest matrix of all.
    squares = white_cross.square() if white_cross.requires_grad else white_cross.square_()
    return Posterior(mean, (prior_variance - squares.sum(-2)).clamp_min(TINY_VARIANCE).sqrt())


def condition_jointly(covariance: Tensor, cross: Tensor, prior: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
    """Posterior mean (batch, queries) and full covariance (batch, queries, queries), for joint samples.

    Args:
        covariance: Between observations, noise on the diagonal, (batch, n, n).
        cross: Between observations and queries, (batch, n, queries).
        prior: Between queries, (batch, queries, queries).
        residual: Observations minus their prior mean, NaN where missing, (batch, n).

    Example:
        >>> one = torch.ones(1, 1, 1)
        >>> mean, covariance = condition_jointly(2 * one, one, one, torch.tensor([[0.5]]))
        >>> round(mean.item(), 6), round(covariance.item(), 6)
        (0.25, 0.5)
    """
    white_cross, white = _whitened_system(covariance, cross, residual)
    return (white_cross.mT @ white).squeeze(-1), prior.double() - white_cross.mT @ white_cross


def posterior(
    x: Tensor, y: Tensor, query: Tensor, hyperparameters: Hyperparameters, *, mask: Tensor | None = None
) -> Posterior:
    """Posterior of an RBF process at `query`.

    Args:
        x: Observed points, (batch, n, dim).
        y: Observations, (batch, n).
        query: Points to predict, (batch, queries, dim).
        hyperparameters: One set per member.
        mask: True where there is an observation; by default where `y` is finite.

    Example:
        >>> one = torch.ones(1)
        >>> x, y = torch.tensor([[[0.0], [1.0]]]), torch.tensor([[0.2, 0.4]])
        >>> known = posterior(x, y, x, Hyperparameters(one, one, 1e-9 * one, 0 * one))
        >>> torch.allclose(known.mean.float(), y, atol=1e-6)
        True
    """
    if mask is not None:
        y = torch.where(mask, y.double(), torch.nan)
    at_once = max(1, NUMBERS_AT_ONCE // (x.shape[1] * query.shape[1]))
    if at_once >= len(x):
        return _posterior(x, y, query, hyperparameters)
    parts = [
        _posterior(x[i:end], y[i:end], query[i:end], hyperparameters.rows(i, end))
        for i in range(0, len(x), at_once)
        for end in [i + at_once]
    ]
    return Posterior(torch.cat([part.mean for part in parts]), torch.cat([part.std for part in parts]))


def _posterior(x: Tensor, y: Tensor, query: Tensor, hyperparameters: Hyperparameters) -> Posterior:
    h = hyperparameters
    # In units of the signal: one pass less over the largest matrix.
    ratio = (h.noise_variance / h.signal_variance).double()[:, None, None]
    identity = torch.eye(x.shape[1], dtype=torch.float64, device=x.device)
    residual = y.double() - h.mean.double()[:, None]
    covariance = rbf(x, x, h.length_scale) + ratio * identity
    known = condition(covariance, rbf(x, query, h.length_scale), torch.ones_like(ratio[:, 0]), residual)
    return Posterior(known.mean + h.mean.double()[:, None], known.std * h.signal_variance.double().sqrt()[:, None])


def _whitened_system(covariance: Tensor, cross: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
    covariance, cross, residual, mask = covariance.double(), cross.double(), residual.double(), torch.isfinite(residual)
    if not mask.all():
        covariance, residual = without_missing(covariance, mask), torch.where(mask, residual, 0.0)
        cross = torch.where(mask.unsqueeze(-1), cross, 0.0)
    factor = cholesky(covariance)
    return whitened(factor, cross), whitened(factor, residual.unsqueeze(-1))


def whitened(factor: Tensor, right: Tensor) -> Tensor:
    return torch.linalg.solve_triangular(factor, right, upper=False)


def log_determinant(factor: Tensor) -> Tensor:
    return 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
