"""The most likely hyper-parameters on a grid, for a whole batch at once."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from metricopt.gaussian_process.conditioning import (
    NUMBERS_AT_ONCE,
    TINY_VARIANCE,
    Hyperparameters,
    cholesky,
    log_determinant,
    rbf,
    whitened,
    without_missing,
)


def fit(
    x: Tensor,
    y: Tensor,
    *,
    length_scales: Tensor,
    noise_ratios: Tensor,
    mask: Tensor | None = None,
    noise_floor: float = 0.0,
) -> Hyperparameters:
    """Most likely hyper-parameters of every member on a grid of length scales and noise-to-signal variance ratios.

    At each grid point the mean (generalised least squares) and the signal variance have their best values in closed
    form, so the grid is two-dimensional whatever the batch, and nothing can diverge or end in a local optimum.

    Args:
        x: Observed points, (batch, n, dim).
        y: Observations, (batch, n).
        length_scales: Candidates, (lengths,).
        noise_ratios: Candidates for noise variance / signal variance, (ratios,), all positive.
        mask: True where there is an observation; by default where `y` is finite.
        noise_floor: Known standard deviation of one observation; the noise is never taken to be less.

    Example:
        >>> x = torch.linspace(0, 1, 20)[None, :, None]
        >>> ratios = torch.tensor([1e-6, 1e-3, 1.0])
        >>> found = fit(x, torch.sin(6 * x[..., 0]), length_scales=torch.tensor([0.01, 0.3]), noise_ratios=ratios)
        >>> round(found.length_scale.item(), 3)
        0.3
    """
    data = Centred.of(y, torch.isfinite(y) if mask is None else mask)
    lengths, ratios = length_scales.double(), noise_ratios.double()
    at_once = max(1, NUMBERS_AT_ONCE // (x.shape[0] * x.shape[1] ** 2 * len(ratios)))
    parts = [
        _evidence(rbf(x[:, None], x[:, None], some), data, ratios)  # of (batch, some, n, n)
        for some in lengths.split(at_once)
    ]
    evidence = Evidence.joined(parts)
    return most_likely(evidence, data.centre, data.count, (lengths, ratios), noise_floor=noise_floor)[0]


def fit_correlations(
    correlations: Tensor, y: Tensor, *, length_scales: Tensor, noise_ratios: Tensor
) -> tuple[Hyperparameters, Tensor]:
    """As `fit`, from correlations (batch, lengths, n, n) that are known already, and the log-likelihood, (batch,).

    Example:
        >>> apart = torch.linspace(0, 1, 20)[:, None] - torch.linspace(0, 1, 20)
        >>> lengths = torch.tensor([0.01, 0.3])
        >>> correlations = torch.exp(-(apart / lengths[:, None, None]).square() / 2)[None].double()
        >>> y = torch.sin(6 * torch.linspace(0, 1, 20))[None]
        >>> found, _ = fit_correlations(correlations, y, length_scales=lengths, noise_ratios=torch.tensor([1e-3, 1.0]))
        >>> round(found.length_scale.item(), 3)
        0.3
    """
    data, ratios = Centred.of(y, torch.isfinite(y)), noise_ratios.double()
    # Length by length: covariances of hundreds of points at all grid points at once would leave the processor's memory.
    parts = [_evidence(some, data, ratios) for some in correlations.split(1, 1)]
    evidence = Evidence.joined(parts)
    grid = length_scales.double(), ratios
    found, _ = most_likely(evidence, data.centre, data.count, grid, noise_floor=0.0)
    deviance = profiled(evidence, data.count, ratios, 0.0)[0]
    return found, -0.5 * deviance.flatten(1).amin(1)


@dataclass(frozen=True)
class Centred:
    """Observations without their average.

    Attributes:
        right: What is left of them, and ones; both zero where an observation is missing, (batch, n, 2).
        mask: True where there is an observation, (batch, n).
        centre: Their average, (batch,).
        count: Their number, (batch,).

    Example:
        >>> y = torch.tensor([[1.0, torch.nan, 3.0]])
        >>> Centred.of(y, torch.isfinite(y)).right[0, :, 0].tolist()
        [-1.0, 0.0, 1.0]
    """

    right: Tensor
    mask: Tensor
    centre: Tensor
    count: Tensor

    @classmethod
    def of(cls, y: Tensor, mask: Tensor) -> "Centred":
        """Those among `y` (batch, n) that the mask marks."""
        ones = mask.double()
        count = ones.sum(1).clamp_min(1)
        known = torch.where(mask, y.double(), 0.0)
        centre = known.sum(1) / count
        return cls(torch.stack([known - centre[:, None] * ones, ones], -1), mask, centre, count)


@dataclass(frozen=True)
class Evidence:
    """All that the likelihood needs to know of C, the covariance in units of the signal: (batch, lengths, ratios) each.

    Attributes:
        own: y C^-1 y of the centred observations y.
        shared: y C^-1 1.
        ones: 1 C^-1 1.
        log_determinant: log |C|.
    """

    own: Tensor
    shared: Tensor
    ones: Tensor
    log_determinant: Tensor

    @classmethod
    def joined(cls, parts: "list[Evidence]") -> "Evidence":
        """Evidence on all the lengths of the parts."""
        if len(parts) == 1:
            return parts[0]
        rows = [(part.own, part.shared, part.ones, part.log_determinant) for part in parts]
        return cls(*(torch.cat(some, 1) for some in zip(*rows, strict=True)))


def most_likely(
    evidence: Evidence, centre: Tensor, count: Tensor, grid: tuple[Tensor, Tensor], *, noise_floor: float
) -> tuple[Hyperparameters, Tensor]:
    """The best grid point of every member, and its number, counted length by length, (batch,).

    Args:
        evidence: On every grid point.
        centre: What was taken off the observations, (batch,).
        count: Their number, (batch,) or (1,).
        grid: Length scales and noise ratios.
        noise_floor: See `fit`.

    Example:
        >>> one, two = torch.ones(1, 1, 1), torch.tensor([2.0])
        >>> found, _ = most_likely(Evidence(2 * one, 0 * one, one, one), two, two, (one[0, 0],) * 2, noise_floor=0.0)
        >>> found.mean.item(), found.signal_variance.item()
        (2.0, 1.0)
    """
    lengths, ratios = grid
    deviance, signal, offset = profiled(evidence, count, ratios, noise_floor)
    best = deviance.flatten(1).argmin(1, keepdim=True)  # (batch, 1)
    cell = best[:, 0]
    variance = signal.flatten(1).gather(1, best)[:, 0]
    mean = centre + offset.flatten(1).gather(1, best)[:, 0]
    noise = variance * ratios[cell % len(ratios)]
    return Hyperparameters(lengths[cell // len(ratios)], variance, noise, mean), cell


def profiled(evidence: Evidence, count: Tensor, ratios: Tensor, noise_floor: float) -> tuple[Tensor, Tensor, Tensor]:
    """Minus twice the logarithm of the highest likelihood at each grid point, and the signal variance and mean there.

    Args:
        evidence: On every grid point.
        count: Number of observations, (batch,) or (1,).
        ratios: Noise variance / signal variance.
        noise_floor: See `fit`.

    Example:
        >>> one = torch.ones(1, 1, 1)
        >>> deviance, signal, mean = profiled(Evidence(5 * one, 2 * one, one, one), torch.ones(1), torch.ones(1), 0.0)
        >>> signal.item(), mean.item()
        (1.0, 2.0)
    """
    count = count[:, None, None]
    offset = evidence.shared / evidence.ones.clamp_min(TINY_VARIANCE)
    squares = (evidence.own - offset * evidence.shared).clamp_min(0)
    # The likelihood falls on either side of squares / count, so with noise = ratio * signal bounded from below the
    # best admissible signal is whichever is larger.
    signal = (squares / count).clamp_min(TINY_VARIANCE).maximum(noise_floor**2 / ratios)
    return squares / signal + count * torch.log(2 * math.pi * signal) + evidence.log_determinant, signal, offset


def _evidence(correlation: Tensor, data: Centred, ratios: Tensor) -> Evidence:
    batch, lengths, n, _ = correlation.shape
    identity = torch.eye(n, dtype=correlation.dtype, device=correlation.device)
    # One flat batch of grid points: LAPACK's way through nested batches took twice as long.
    covariance = (correlation[:, :, None] + ratios[:, None, None] * identity).flatten(0, 2)
    cells = lengths * len(ratios)
    if not data.mask.all():
        covariance = without_missing(covariance, data.mask.repeat_interleave(cells, 0))
    factor = cholesky(covariance)
    white = whitened(factor, data.right.repeat_interleave(cells, 0))
    products = (*quadratic(white), log_determinant(factor))
    return Evidence(*(some.view(batch, lengths, len(ratios)) for some in products))


def quadratic(white: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Products of the two columns of each matrix (..., n, 2): the first with itself, with the second, that with itself.

    Example:
        >>> [some.item() for some in quadratic(torch.tensor([[1.0, 0.0], [2.0, 3.0]]))]
        [5.0, 6.0, 9.0]
    """
    # Not as thousands of 2 x 2 products, which take longer than the triangular systems before them.
    own, ones = white.unbind(-1)
    return (own * own).sum(-1), (own * ones).sum(-1), (ones * ones).sum(-1)
