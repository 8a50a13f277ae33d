"""Candidate steps for the value function to choose from: sparse random ones, and ones in telling subspaces."""

import torch
from torch import Tensor

_ACTIVE = 8  # coordinates a sparse random step changes on average
_SHARE = 0.6  # of a subspace's basis vectors that take part in one step


def sparse_steps(count: int, dim: int, generator: torch.Generator) -> Tensor:
    """Random steps along a few coordinates each, (count, dim).

    Example:
        >>> steps = sparse_steps(100, 80, torch.Generator().manual_seed(0))
        >>> bool((steps != 0).sum(1).float().mean() < 10)
        True
    """
    keep = torch.rand(count, dim, generator=generator) < min(1.0, _ACTIVE / dim)
    return torch.randn(count, dim, generator=generator) * keep


def steps_in_span(vectors: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Random combinations of an orthonormal basis of the span of `vectors` (k, dim): (count, dim).

    Example:
        >>> steps = steps_in_span(torch.tensor([[1.0, 1.0, 0.0]]), 4, torch.Generator().manual_seed(0))
        >>> torch.allclose(steps[:, 0], steps[:, 1]), bool(steps[:, 2].any())
        (True, False)
    """
    basis = torch.linalg.qr(vectors.T).Q  # (dim, min(k, dim))
    size = (count, basis.shape[1])
    keep = torch.rand(size, generator=generator) < _SHARE
    return (torch.randn(size, generator=generator) * keep) @ basis.T


def within(radius: float, steps: Tensor, generator: torch.Generator) -> Tensor:
    """The steps' directions with random lengths up to 1.5 radii, longer ones more often; zero steps are dropped.

    Example:
        >>> bool((within(2.0, 100 * torch.ones(5, 3), torch.Generator().manual_seed(0)).norm(dim=1) <= 3).all())
        True
    """
    norm = steps.norm(dim=1, keepdim=True)
    steps = (steps / norm)[norm.squeeze(1) > 1e-6]
    return steps * (1.5 * radius * torch.rand(len(steps), 1, generator=generator).sqrt())
