"""A Gaussian process over phi as the value function: exact, honest about what it has not seen, quickly refitted."""

from dataclasses import dataclass

import torch
from torch import Tensor

from metricopt.gaussian_process import Hyperparameters, condition_jointly, fit, posterior, rbf

_RELATIVE_LENGTHS = (0.5, 1.0, 2.0, 4.0, 8.0)
_NOISE_RATIOS = (1e-3, 1e-2, 5e-2, 0.2)


@dataclass(frozen=True)
class LocalGP:
    """Cost as a function of points near a centre, learnt from the points observed there.

    Attributes:
        points: Observed points, (n, dim).
        costs: Their costs, (n,).
        hyperparameters: The most likely ones on a grid.

    Example:
        >>> points = torch.randn(30, 2, generator=torch.Generator().manual_seed(0))
        >>> value = local_gp(points, points[:, 0], scale=1.0)
        >>> bool((value(points) - points[:, 0]).abs().max() < 0.1)
        True
    """

    points: Tensor
    costs: Tensor
    hyperparameters: Hyperparameters

    def __call__(self, points: Tensor) -> Tensor:
        """Expected cost, (n,), differentiable in the points (n, dim)."""
        return posterior(self.points[None], self.costs[None], points[None], self.hyperparameters).mean[0].to(points)

    def std(self, points: Tensor) -> Tensor:
        """How unsure that expectation is, (n,)."""
        return posterior(self.points[None], self.costs[None], points[None], self.hyperparameters).std[0].to(points)

    def samples(self, points: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """Functions drawn from what is believed, evaluated jointly at the points: (count, n)."""
        h = self.hyperparameters
        ratio = (h.noise_variance / h.signal_variance).item()
        identity = torch.eye(len(self.points), dtype=torch.float64)
        mean, covariance = condition_jointly(
            (rbf(self.points, self.points, h.length_scale[0]) + ratio * identity)[None],
            rbf(self.points, points, h.length_scale[0])[None],
            rbf(points, points, h.length_scale[0])[None],
            (self.costs.double() - h.mean)[None],
        )
        jitter = 1e-5 * torch.eye(len(points), dtype=torch.float64)
        root = torch.linalg.cholesky(covariance[0] + jitter) * h.signal_variance.sqrt()
        noise = torch.randn(len(points), count, generator=generator, dtype=torch.float64)
        return (mean[0, :, None] + h.mean + root @ noise).T.to(points)


def local_gp(points: Tensor, costs: Tensor, *, scale: float) -> LocalGP:
    """The most likely Gaussian process for finite costs (n,) at points (n, dim) that lie about `scale` apart.

    Example:
        >>> points = torch.linspace(-1, 1, 12)[:, None]
        >>> value = local_gp(points, points[:, 0] ** 2, scale=0.5)
        >>> bool(value.std(torch.tensor([[9.0]])) > 10 * value.std(torch.tensor([[0.05]])))
        True
    """
    hyperparameters = fit(
        points[None],
        costs[None],
        length_scales=scale * torch.tensor(_RELATIVE_LENGTHS),
        noise_ratios=torch.tensor(_NOISE_RATIOS),
    )
    return LocalGP(points, costs, hyperparameters)
