"""Distances between phi measured by what a metric could notice: how much the predictions change.

A metric sees phi only through predictions. To first order, predictions change by J dphi, so their mean squared change
is dphi^T G dphi with G = J^T J; with predictions as square roots of probabilities, G is the Fisher information. In
whitened coordinates z every direction changes the predictions equally, which is what a Gaussian process with one
length scale and a round trust region assume. It costs forward passes, and no metric query.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

# Of the largest eigenvalue: directions that change hardly anything are not stretched more than about thirtyfold. With
# tenfold, all but 3 of 46 directions of FiLM on CoverType were at the bound, and the search slower at first.
_FLOOR = 1e-3


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


def geometry_of(jacobian: Tensor) -> Geometry:
    """Geometry of predictions that change by `jacobian` (dim, features); that of phi where it is zero, or not finite.

    Example:
        >>> geometry = geometry_of(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
        >>> geometry.plain(torch.eye(2)).norm(dim=1).sort().values
        tensor([0.2500, 0.5000])
    """
    tensor = jacobian @ jacobian.T
    if not bool(torch.isfinite(tensor).all()) or not bool(tensor.any()):
        return euclidean(len(jacobian))
    eigenvalues, vectors = torch.linalg.eigh(tensor)
    roots = eigenvalues.clamp_min(_FLOOR * float(eigenvalues[-1])).sqrt()
    return Geometry(vectors / roots, (vectors * roots).T)
