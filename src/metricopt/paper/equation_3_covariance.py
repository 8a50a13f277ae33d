"""Equation 3: Sigma = I / (2 d) + U U^T / (2 k), where the search for a better metric looks.

Population first: each member has its own gradients, basis and perturbations.
"""

import torch
from torch import Tensor

from metricopt.paper.gram_schmidt import orthonormal_combinations


def gradient_basis(past_gradients: Tensor) -> Tensor:
    """Orthonormal basis U of the span of each member's past gradients, (population, dim, memory).

    Gradients that are zero or combinations of the others add no direction: as many columns as the rank is smaller
    than `memory` are zero. Entries that are not finite count as zero.

    Args:
        past_gradients: Loss gradients, in any order and of any length, (population, memory, dim).

    Example:
        >>> twice_the_same = torch.tensor([[[3.0, 0.0, 0.0], [-6.0, 0.0, 0.0]]])
        >>> gradient_basis(twice_the_same).abs().sum(1)
        tensor([[1., 0.]])
    """
    # In double precision: whether a gradient depends on the others is seen in digits that float32 does not have.
    rows = past_gradients.detach().cpu().double().nan_to_num(0.0, 0.0, 0.0)
    # By the small Gram matrix rather than QR: without pivoting QR puts an arbitrary direction where a column depends
    # on earlier ones, and dropping that direction would also drop a part of the columns after it.
    combinations = orthonormal_combinations((rows @ rows.mT).numpy())
    return (rows.mT @ torch.from_numpy(combinations).mT).to(past_gradients)


def search_covariance(basis: Tensor) -> Tensor:
    """Sigma = I / (2 dim) + U U^T / (2 k) with k the rank of the basis (Eq. 3), (population, dim, dim).

    Its trace is always 1: without any gradient it is I / dim, a search in all directions alike.

    Example:
        >>> basis = gradient_basis(torch.tensor([[[1.0, 0.0]]]))
        >>> search_covariance(basis)
        tensor([[[0.7500, 0.0000],
                 [0.0000, 0.2500]]])
    """
    everywhere, subspace = variances_of(basis)
    identity = torch.eye(basis.shape[1], dtype=basis.dtype, device=basis.device)
    return everywhere * identity + subspace * basis @ basis.mT


def times_covariance(basis: Tensor, slope: Tensor) -> Tensor:
    """Sigma slope, (population, dim), without forming Sigma.

    Example:
        >>> basis = gradient_basis(torch.tensor([[[1.0, 0.0]]]))
        >>> times_covariance(basis, torch.tensor([[2.0, 2.0]]))
        tensor([[1.5000, 0.5000]])
    """
    everywhere, subspace = variances_of(basis)
    column = slope.unsqueeze(-1)  # (population, dim, 1)
    return (everywhere * column + subspace * basis @ (basis.mT @ column)).squeeze(-1)


def perturbations(basis: Tensor, pairs: int, sigma: float, generator: torch.Generator) -> Tensor:
    """Samples of N(0, sigma^2 Sigma) that never form Sigma, (population, pairs, dim).

    Args:
        basis: From `gradient_basis`, (population, dim, memory).
        pairs: P, samples for each member.
        sigma: s, their overall size: the expected squared length of a sample is sigma^2.
        generator: Draws on its own device, so the numbers do not depend on where phi is.

    Example:
        >>> basis = gradient_basis(torch.ones(2, 3, 5))
        >>> perturbations(basis, 4, 0.1, torch.Generator().manual_seed(0)).shape
        torch.Size([2, 4, 5])
    """
    population, dim, memory = basis.shape
    size = pairs * (dim + memory)
    noise = torch.randn(population, size, generator=generator, dtype=basis.dtype, device=generator.device).to(basis)
    around = noise[:, : pairs * dim].reshape(population, pairs, dim)
    within = noise[:, pairs * dim :].reshape(population, pairs, memory)
    everywhere, subspace = variances_of(basis)
    return sigma * (everywhere.sqrt() * around + subspace.sqrt() * within @ basis.mT)


def variances_of(basis: Tensor) -> tuple[Tensor, Tensor]:
    """Weights of I and of U U^T in each member's Sigma, (population, 1, 1) each.

    Example:
        >>> [weight.item() for weight in variances_of(torch.eye(4)[None, :, :2])]
        [0.125, 0.25]
    """
    ranks = basis.detach().square().sum((1, 2)).round()  # columns have length 1 or 0
    everywhere, subspace = variances(basis.shape[1], ranks)
    return everywhere[:, None, None], subspace[:, None, None]


def variances(dim: int, ranks: Tensor) -> tuple[Tensor, Tensor]:
    """Weights of I and of U U^T in Eq. 3: halves of 1/dim and of 1/rank; without a subspace all is left to I.

    Example:
        >>> [weight.tolist() for weight in variances(4, torch.tensor([2.0, 0.0]))]
        [[0.125, 0.25], [0.25, 0.0]]
    """
    nowhere = ranks == 0
    everywhere = torch.full_like(ranks, 0.5 / dim).masked_fill(nowhere, 1.0 / dim)
    subspace = (0.5 / ranks).masked_fill(nowhere, 0.0)
    return everywhere, subspace
