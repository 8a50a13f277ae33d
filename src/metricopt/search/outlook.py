"""What the metric would be shown near one phi, to first order: thousands of candidates for the price of a product."""

from dataclasses import dataclass

import torch
from torch import Tensor

from metricopt.search.geometry import Geometry, geometry_of
from metricopt.task.probe import Probe
from metricopt.task.views import View

_STEP = 0.02  # of the differences: small against any useful change of phi, large against float32's rounding
_SHRINK = 0.9  # of the steps of a descent
_AT_ONCE = 64  # candidates
_FIT_STEPS, _DAMPING = 2, 1e-3  # more steps came no nearer


@dataclass(frozen=True)
class Outlook:
    """Outputs around a centre: origin + jacobian . step.

    Attributes:
        centre: The phi around which, (dim,).
        origin: Outputs there, (n, columns).
        jacobian: Their change with phi, (dim, n, columns).

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> outlook, _ = measured(QuadraticTask(dim=3).probe(), torch.ones(3), rows=10)  # of which phi itself is shown
        >>> torch.allclose(outlook.outputs(torch.ones(1, 3)), torch.full((1, 1, 3), 2.0), atol=1e-4)
        True
    """

    centre: Tensor
    origin: Tensor
    jacobian: Tensor

    def around(self, probe: Probe, phi: Tensor, *, rows: int) -> "Outlook":
        """The same around another phi near by: with its outputs, and the change measured before."""
        return Outlook(phi.clone(), probe.shown(phi[None], rows=rows)[0], self.jacobian)

    def outputs(self, steps: Tensor) -> Tensor:
        """Outputs of centre + steps (k, dim): (k, n, columns)."""
        return self.origin + (steps @ self.jacobian.flatten(1)).unflatten(1, self.origin.shape)

    def features(self, view: View, steps: Tensor) -> Tensor:
        """What is seen of centre + steps (k, dim) in a view: (k, features)."""
        return torch.cat([view.features(self.outputs(some)) for some in steps.split(_AT_ONCE)])

    def descend(self, view: View, slopes: Tensor, geometry: Geometry, *, bound: float, iterations: int) -> list[Tensor]:
        """Whitened steps (samples, dim), some from early and some from late, on ways down given slopes of the view.

        Args:
            view: How the metric looks at outputs.
            slopes: Change of the value with the view's features, (samples, features).
            geometry: Of the steps.
            bound: Longest whitened step.
            iterations: Steps of each descent.
        """
        along = (geometry.to_phi.T @ self.jacobian.flatten(1)).unflatten(1, self.origin.shape)  # (dim, n, columns)
        step = torch.zeros(len(slopes), len(self.centre))
        keep = {1, 3, 7, 14, iterations - 1}
        path, size = [], bound / 3
        for iteration in range(iterations):
            outputs = (self.origin + (step @ along.flatten(1)).unflatten(1, self.origin.shape)).requires_grad_()
            value = (view.smooth_features(outputs) * slopes).sum()
            gradient = torch.autograd.grad(value, outputs)[0].flatten(1) @ along.flatten(1).T  # (samples, dim)
            step = step - size * gradient / gradient.norm(dim=1, keepdim=True).clamp_min(1e-12)
            step = step * (bound / step.norm(dim=1, keepdim=True).clamp_min(1e-12)).clamp_max(1.0)
            size *= _SHRINK
            if iteration in keep:
                path.append(step)
        return path


def measured(probe: Probe, phi: Tensor, *, rows: int) -> tuple[Outlook, Geometry]:
    """The outlook from one phi (dim,) and its geometry, by differences: dim + 1 forward passes, no query.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> _, geometry = measured(QuadraticTask(dim=3).probe(), torch.zeros(3), rows=10)
        >>> torch.allclose(geometry.plain(torch.ones(1, 3)).norm(), torch.tensor(3.0).sqrt(), atol=1e-3)
        True
    """
    origin, ahead = _shown_around(probe, phi, rows)
    change = (probe.responses(ahead) - probe.responses(origin)) / _STEP
    return Outlook(phi.clone(), origin[0], (ahead - origin) / _STEP), geometry_of(change)


def fitted_to(probe: Probe, outputs: Tensor, *, rows: int) -> Tensor:
    """phi (dim,) whose predictions come near those of outputs (1, n, columns): two steps of Gauss and Newton from 0.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> phi = fitted_to(QuadraticTask(dim=2).probe(), torch.tensor([[[0.5, -0.5]]]), rows=10)
        >>> torch.allclose(phi, torch.tensor([0.5, -0.5]), atol=0.01)
        True
    """
    wanted, phi = probe.responses(outputs), torch.zeros(probe.dim)
    for _ in range(_FIT_STEPS):
        origin, ahead = (probe.responses(some) for some in _shown_around(probe, phi, rows))
        change = (ahead - origin) / _STEP  # (dim, features)
        curvature = change @ change.T
        # What hardly changes predictions stays where it is.
        damping = _DAMPING * curvature.diagonal().max() * torch.eye(probe.dim)
        phi = phi + torch.linalg.solve(curvature + damping, change @ (wanted - origin)[0])
    return phi


def _shown_around(probe: Probe, phi: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """What is shown at phi, (1, n, columns), and a step away along each coordinate, (dim, n, columns)."""
    return probe.shown(phi[None], rows=rows), probe.shown(phi + _STEP * torch.eye(probe.dim), rows=rows)
