"""A Gaussian process over what the metric sees as the value function: exact, quickly refitted, honest about its doubt.

Over phi itself the same process needs several times the answers: a metric jumps wherever a prediction changes, which
looks like noise in phi and is no noise in the predictions (docs/recipe.md).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from metricopt.core.errors import DataError
from metricopt.gaussian_process import Hyperparameters, cholesky, fit_correlations

Result = TypeVar("Result")

_RELATIVE_LENGTHS = (0.5, 1.0, 2.0, 4.0, 8.0)
_NOISE_RATIOS = (1e-4, 1e-3, 1e-2, 1e-1)
# Samples are drawn at hundreds of points that differ by a few predictions.
_ROUNDING = 1e-10
_JITTER = 1e-5

_NEAR = 2.0  # distance from the origin up to which it serves as the centre: that of all views but raw ones
_LARGE = 100.0  # distance from the centre, from where single precision is too coarse for those between points


@dataclass(frozen=True)
class ViewGP:
    """Cost as a function of features of a view, learnt from those observed.

    Attributes:
        features: Observed features, (n, features).
        hyperparameters: The most likely ones on a grid.
        factor: Cholesky factor of the observations' covariance in units of the signal, (n, n).
        weights: What each observation adds to the mean, in units of the signal, (n,).
        extra: Further noise of each observation, in units of the signal's variance, (n,); none if None.

    Example:
        >>> seen = torch.randn(30, 2, generator=torch.Generator().manual_seed(0))
        >>> value = view_gp(seen, seen[:, 0])
        >>> bool((value(seen) - seen[:, 0]).abs().max() < 0.1)
        True
    """

    features: Tensor
    hyperparameters: Hyperparameters
    factor: Tensor
    weights: Tensor
    extra: Tensor | None = None

    def __call__(self, features: Tensor) -> Tensor:
        """Expected cost, (n,)."""
        return self._mean(self._correlation(self.apart(features))).to(features)

    def std(self, features: Tensor) -> Tensor:
        """How unsure that expectation is, (n,)."""
        return self.forecast(features)[1]

    def forecast(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Expected cost and how unsure it is, (n,) each."""
        cross = self._correlation(self.apart(features))
        white = self._whitened(cross.T)
        std = (1 - white.square().sum(0)).clamp_min(0).sqrt() * self._scale
        return self._mean(cross).to(features), std.to(features)

    def apart(self, features: Tensor) -> Tensor:
        """Squared distances from features (m, features) to those observed, (m, n)."""
        return squared_distances(features, self.features)

    def joint(self, features: Tensor, *, apart: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Expected costs (n,) and their covariance (n, n) in double precision.

        Args:
            features: Where, (n, features).
            apart: `self.apart(features)`, if it is known already.
        """
        cross = self._correlation(self.apart(features) if apart is None else apart)
        white = self._whitened(cross.T)
        covariance = self._correlation(squared_distances(features, features)) - white.T @ white
        return self._mean(cross), covariance * self._scale**2

    def samples(
        self, features: Tensor, heat: Tensor, generator: torch.Generator, *, apart: Tensor | None = None
    ) -> Tensor:
        """Functions drawn from what is believed, evaluated jointly at the features: (samples, n).

        Args:
            features: Where to evaluate them, (n, features).
            heat: For each sample, how far it strays from the mean: 0 is the mean itself, 1 a fair draw.
            generator: Where draws come from.
            apart: `self.apart(features)`, if it is known already.
        """
        mean, covariance = self.joint(features, apart=apart)
        root = _root(covariance, self._scale**2)
        noise = torch.randn(len(features), len(heat), generator=generator, dtype=torch.float64)
        return (mean[:, None] + heat * (root @ noise)).T.to(features)

    def slopes(self, at: Tensor, heat: Tensor, generator: torch.Generator) -> Tensor:
        """Gradients of functions drawn from what is believed, at one point (features,): (samples, features).

        Each is a linear function drawn from the prior around that point, corrected by what is known (Matheron's rule).
        """
        squared, ratio, seen = self._squared_length, self._ratio, self.features
        prior = torch.randn(seen.shape[1], len(heat), generator=generator) / squared**0.5
        spread = ratio**0.5 if self.extra is None else (ratio + self.extra).sqrt()[:, None].to(seen)
        noise = spread * torch.randn(len(seen), len(heat), generator=generator)
        # Steps from there to what was seen are never written down: they would be as many numbers again.
        along = seen @ prior - at @ prior  # (n, samples)
        correction = torch.cholesky_solve(-(along + noise).double(), self.factor)
        weights = self.weights[:, None] + heat * correction
        near = torch.exp(self.apart(at[None])[0] / (-2 * squared))
        pulls = (near[:, None] * weights / squared).to(seen)
        slopes = seen.T @ pulls - at[:, None] * pulls.sum(0) + heat.to(seen) * prior
        return (slopes * self._scale).T

    @property
    def _scale(self) -> float:
        return float(self.hyperparameters.signal_variance.sqrt())

    @property
    def _squared_length(self) -> float:
        return float(self.hyperparameters.length_scale.square())

    @property
    def _ratio(self) -> float:
        return float(self.hyperparameters.noise_variance / self.hyperparameters.signal_variance)

    def _correlation(self, apart: Tensor) -> Tensor:
        return torch.exp(apart / (-2 * self._squared_length))

    def _mean(self, cross: Tensor) -> Tensor:
        return cross @ self.weights * self._scale + self.hyperparameters.mean

    def _whitened(self, right: Tensor) -> Tensor:
        return torch.linalg.solve_triangular(self.factor, right, upper=False)


def _root(covariance: Tensor, signal: float) -> Tensor:
    """A matrix R with R R^T = covariance (n, n), which may be singular, and indefinite by rounding."""
    jitter = _JITTER * signal * torch.eye(len(covariance), dtype=torch.float64)
    factor, failed = torch.linalg.cholesky_ex(covariance + jitter)
    if not failed:
        return factor
    eigenvalues, vectors = torch.linalg.eigh(covariance)
    return vectors * eigenvalues.clamp_min(0).sqrt()


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """Between rows of `a` (n, features) and `b` (m, features): (n, m), in double precision.

    Example:
        >>> squared_distances(torch.zeros(1, 2), torch.ones(1, 2)).tolist()
        [[2.0]]
    """
    # One product of matrices: features are thousands, and differences row by row would take as many passes. Centred
    # first if need be: points far from the origin but near each other would lose their distance to rounding.
    same, squares = a is b, torch.linalg.vecdot(b, b)
    if float(squares.amax()) > _NEAR**2:
        centre = b.mean(0)
        a = a - centre
        b = a if same else b - centre
        squares = torch.linalg.vecdot(b, b)
    if float(squares.amax()) > _LARGE**2:
        # Far apart from each other, too: in single precision the small distances would be lost beside the large ones.
        a, b = a.double(), b.double()
        squares = torch.linalg.vecdot(b, b)
    own = squares if same else torch.linalg.vecdot(a, a)
    return torch.addmm(own[:, None] + squares, a, b.T, alpha=-2).clamp_min_(0).double()


def view_gp(
    features: Tensor,
    costs: Tensor,
    *,
    like: Hyperparameters | None = None,
    squares: Tensor | None = None,
    extra: Tensor | None = None,
) -> ViewGP:
    """The process for finite costs (n,) at features (n, features), with the most likely hyper-parameters or given ones.

    Squared distances (n, n) of the features need not be computed where they are known. Some costs may be less certain
    than others by `extra` variances (n,), in units of the signal's.

    Example:
        >>> seen = torch.linspace(-1, 1, 12)[:, None]
        >>> value = view_gp(seen, seen[:, 0] ** 2)
        >>> bool(value.std(torch.tensor([[9.0]])) > 10 * value.std(torch.tensor([[0.05]])))
        True
    """
    squares = squared_distances(features, features) if squares is None else squares
    h = _most_likely(features, costs, squares)[0] if like is None else like
    ratio = h.noise_variance / h.signal_variance

    def factorised(squares: Tensor) -> Tensor:
        correlation = torch.exp(squares / (-2 * h.length_scale**2))
        noise = (ratio + _JITTER) * torch.eye(len(squares), dtype=torch.float64)
        return cholesky(correlation + (noise if extra is None else noise + extra.diag()))

    factor = _precisely_if_need_be(factorised, features, squares)
    residual = (costs.double() - h.mean) / h.signal_variance.sqrt()
    return ViewGP(features, h, factor, torch.cholesky_solve(residual[:, None], factor)[:, 0], extra)


def likeliest(candidates: Sequence[tuple[Tensor, Tensor]], costs: Tensor) -> int:
    """Which of several features (n, features) of the same points, with their squares, explain their costs (n,) best.

    Example:
        >>> told, chance = (torch.randn(30, 1, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
        >>> likeliest([(each, squared_distances(each, each)) for each in (chance, told)], told[:, 0])
        1
    """
    evidence = [_most_likely(features, costs, squares)[1] for features, squares in candidates]
    return int(torch.tensor(evidence).argmax())


def _most_likely(features: Tensor, costs: Tensor, squares: Tensor) -> tuple[Hyperparameters, float]:
    """Hyper-parameters on a grid of lengths around the median distance, and the logarithm of their likelihood."""

    def fitted(apart: Tensor) -> tuple[Hyperparameters, Tensor]:
        usual = float(apart[apart > 0].median()) ** 0.5 if bool((apart > 0).any()) else 1.0
        lengths = usual * torch.tensor(_RELATIVE_LENGTHS, dtype=torch.float64)
        correlations = torch.exp(-apart / (2 * lengths[:, None, None].square()))
        correlations = correlations + _JITTER * torch.eye(len(apart), dtype=torch.float64)
        ratios = torch.tensor(_NOISE_RATIOS)
        return fit_correlations(correlations[None], costs[None], length_scales=lengths, noise_ratios=ratios)

    found, likelihood = _precisely_if_need_be(fitted, features, squares)
    return found, float(likelihood)


def _precisely_if_need_be(work: Callable[[Tensor], Result], features: Tensor, squares: Tensor) -> Result:
    """`work(squares)`; with distances in double precision if those in single precision make a covariance indefinite.

    A squared distance is the difference of two squares, which the jitter makes good unless a point lies far off.
    """
    try:
        return work(squares)
    except DataError:
        precise = features.double()
        apart = squared_distances(precise, precise)
        # Points that look the same are at no distance: what rounding makes of it would be taken for a length scale.
        return work(apart.where(apart > _ROUNDING * apart.amax(), 0.0))
