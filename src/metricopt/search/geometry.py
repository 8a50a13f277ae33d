"""Distances between phi measured by what a metric could notice: how much the predictions change.

A metric sees phi only through predictions. To first order, predictions change by J dphi, so their mean squared change
is dphi^T G dphi with G = J^T J; with predictions as square roots of probabilities, G is the Fisher information. In
whitened coordinates z every direction changes the predictions equally, which is what a Gaussian process with one
length scale and a round trust region assume. It costs forward passes, and no metric query.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from metricopt.task import Task

_STEP = 0.02  # of the central differences: small against any useful change of phi, large against float32's rounding
_FLOOR = 1e-2  # of the largest eigenvalue: directions that change hardly anything are not stretched more than tenfold


@dataclass(frozen=True)
class Geometry:
    """Linear map between steps in phi and steps in whitened coordinates z.

    Attributes:
        to_phi: (dim, dim): dphi = to_phi dz.
        to_whitened: (dim, dim): dz = to_whitened dphi, the inverse.

    Example:
        >>> twice = Geometry(2 * torch.eye(2), torch.eye(2) / 2)
        >>> twice.plain(torch.ones(1, 2)), twice.whitened(torch.ones(1, 2)), twice.gradient(torch.ones(1, 2))
        (tensor([[2., 2.]]), tensor([[0.5000, 0.5000]]), tensor([[2., 2.]]))
    """

    to_phi: Tensor
    to_whitened: Tensor

    def whitened(self, steps: Tensor) -> Tensor:
        """Steps in phi (n, dim) as steps in z."""
        return steps @ self.to_whitened.T

    def plain(self, steps: Tensor) -> Tensor:
        """Steps in z (n, dim) as steps in phi."""
        return steps @ self.to_phi.T

    def gradient(self, gradients: Tensor) -> Tensor:
        """Gradients with respect to phi (n, dim) as gradients with respect to z."""
        return gradients @ self.to_phi


def euclidean(dim: int) -> Geometry:
    """The geometry in which phi is its own coordinate system.

    Example:
        >>> euclidean(2).plain(torch.ones(1, 2))
        tensor([[1., 1.]])
    """
    return Geometry(torch.eye(dim), torch.eye(dim))


def output_geometry(task: Task, phi: Tensor, *, rows: int) -> Geometry:
    """Geometry of the predictions around one phi (dim,); that of phi itself where they do not change, or not finitely.

    Example:
        >>> from metricopt.tasks.synthetic import QuadraticTask
        >>> geometry = output_geometry(QuadraticTask(dim=3), torch.zeros(3), rows=10)  # its response is phi itself
        >>> torch.allclose(geometry.plain(torch.ones(1, 3)).norm(), torch.tensor(3.0).sqrt(), atol=1e-3)
        True
    """
    steps = _STEP * torch.eye(task.dim)
    ahead, behind = task.responses(phi + steps, rows=rows), task.responses(phi - steps, rows=rows)  # (dim, features)
    jacobian = (ahead - behind) / (2 * _STEP)
    tensor = jacobian @ jacobian.T
    if not bool(torch.isfinite(tensor).all()) or not bool(tensor.any()):
        return euclidean(task.dim)
    eigenvalues, vectors = torch.linalg.eigh(tensor)
    roots = eigenvalues.clamp_min(_FLOOR * float(eigenvalues[-1])).sqrt()
    return Geometry(vectors / roots, (vectors * roots).T)
