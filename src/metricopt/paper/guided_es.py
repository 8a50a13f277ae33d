"""Equations 3 and 4: a descent direction of the value function, searched mostly among recent loss gradients.

Pure functions, population first: phi is (population, dim), and each member has its own gradients and perturbations.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from metricopt.paper.orthonormal import TINY, orthonormal_combinations

# Any function from points (n, dim) to values (n,) whose rows do not influence each other.
Value = Callable[[Tensor], Tensor]

# The functions below take tensors, and NumPy arrays as well: for arrays as small as these, which are met at every
# step of finetuning, torch takes several times as long.
Rows = TypeVar("Rows", Tensor, np.ndarray)


def gradient_basis(past_gradients: Rows) -> Rows:
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
    return like(past_gradients, _spanned(host(past_gradients))[0])


def _spanned(past_gradients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The basis, and how many of its columns are not zero, for each member."""
    rows = past_gradients.astype(np.float64, copy=False)
    columns = rows.swapaxes(1, 2)
    # By the small Gram matrix rather than QR: without pivoting QR puts an arbitrary direction where a column depends
    # on earlier ones, and dropping that direction would also drop a part of the columns after it.
    with np.errstate(invalid="ignore"):
        gram = rows @ columns
    if not math.isfinite(np.einsum("pii->", gram)):
        return _spanned(np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0))
    combinations, ranks = orthonormal_combinations(gram)
    return columns @ combinations.swapaxes(1, 2), ranks


def search_covariance(basis: Tensor) -> Tensor:
    """Sigma = I / (2 dim) + U U^T / (2 k) with k the rank of the basis (Eq. 3), (population, dim, dim).

    Its trace is always 1: without any gradient it is I / dim, a search in all directions alike.

    Example:
        >>> basis = gradient_basis(torch.tensor([[[1.0, 0.0]]]))
        >>> search_covariance(basis)
        tensor([[[0.7500, 0.0000],
                 [0.0000, 0.2500]]])
    """
    everywhere, subspace = _weights(basis)
    identity = torch.eye(basis.shape[1], dtype=basis.dtype, device=basis.device)
    return everywhere * identity + subspace * basis @ basis.mT


def perturbations(basis: Rows, pairs: int, sigma: float, generator: torch.Generator) -> Rows:
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
    columns = host(basis)
    ranks = (columns * columns).sum((1, 2)).round().astype(np.int64)  # columns have length 1 or 0
    return like(basis, _perturbations(columns, ranks, pairs, sigma, generator=generator))


def _perturbations(
    basis: np.ndarray, ranks: np.ndarray, pairs: int, sigma: float, *, generator: torch.Generator
) -> np.ndarray:
    population, dim, memory = basis.shape
    dtype = torch.float64 if basis.dtype == np.float64 else torch.float32
    size = pairs * (dim + memory)
    noise = host(torch.randn(population, size, generator=generator, dtype=dtype, device=generator.device))
    weights = [[(sigma * math.sqrt(w),) for w in variances(dim, rank)] for rank in range(memory + 1)]
    scale = np.array(weights, dtype=basis.dtype)[ranks]  # (population, 2, 1)
    everywhere = noise[:, : pairs * dim].reshape(population, pairs, dim) * scale[:, :1]
    within = noise[:, pairs * dim :].reshape(population, pairs, memory) * scale[:, 1:]
    return everywhere + within @ basis.swapaxes(1, 2)


def antithetic_estimate(value: Callable[[Rows], Rows], phi: Rows, deltas: Rows, sigma: float) -> Rows:
    """u = 1 / (sigma^2 P) * sum_i delta_i [f(phi + delta_i) - f(phi - delta_i)] (Eq. 4), (population, dim).

    Args:
        value: f, called once with all points of all members.
        phi: Where to estimate, (population, dim).
        deltas: Perturbations delta_i, (population, pairs, dim).
        sigma: s, with which they were drawn.

    Example:
        >>> deltas = torch.tensor([[[0.1, 0.0]]])
        >>> antithetic_estimate(lambda points: points.sum(1), torch.zeros(1, 2), deltas, 0.1)
        tensor([[2., 0.]])
    """
    population, pairs, dim = deltas.shape
    library: Any = np if isinstance(deltas, np.ndarray) else torch
    points = phi[:, None] + library.concatenate([deltas, -deltas], 1)  # (population, 2 pairs, dim)
    values: Any = value(points.reshape(-1, dim)).reshape(population, 2, pairs)
    change = (values[:, :1] - values[:, 1:]) / (sigma**2 * pairs)  # (population, 1, pairs)
    return (change @ deltas)[:, 0]


@torch.no_grad()
def guided_direction(
    value: Value,
    phi: Tensor,
    past_gradients: Tensor,
    *,
    pairs: int = 3,
    sigma: float = 0.1,
    generator: torch.Generator,
) -> Tensor:
    """Ascent direction u of `value` at `phi` by guided evolution strategies (Eqs. 3 and 4); descend along -u.

    Its mean is about 2 Sigma grad f, see `exact_direction`.

    Args:
        value: f, called once with all 2 * pairs points of all members.
        phi: (population, dim).
        past_gradients: The last k loss gradients, (population, memory, dim).
        pairs: P, antithetic pairs for each member.
        sigma: s, size of the perturbations.
        generator: Source of the perturbations.

    Example:
        >>> phi, gradients = torch.ones(1, 2), torch.tensor([[[1.0, 0.0]]])
        >>> generator = torch.Generator().manual_seed(0)
        >>> bowl = lambda points: points.square().sum(1)
        >>> u = guided_direction(bowl, phi, gradients, pairs=10_000, generator=generator)
        >>> torch.allclose(u, torch.tensor([[3.0, 1.0]]), atol=0.1)
        True
    """
    points = host(phi)
    basis, ranks = _spanned(host(past_gradients))  # (population, dim, memory)
    deltas = _perturbations(basis.astype(points.dtype), ranks, pairs, sigma, generator=generator)
    return like(phi, antithetic_estimate(partial(_on_host, value, phi), points, deltas, sigma))


def exact_direction(value: Value, phi: Tensor, past_gradients: Tensor) -> Tensor:
    """2 Sigma grad f, which `guided_direction` estimates, by one backward pass, (population, dim).

    Args:
        value: f, differentiable by autograd.
        phi: (population, dim).
        past_gradients: The last k loss gradients, (population, memory, dim).

    Example:
        >>> phi, gradients = torch.ones(1, 2), torch.tensor([[[1.0, 0.0]]])
        >>> exact_direction(lambda points: points.square().sum(1), phi, gradients)
        tensor([[3., 1.]])
    """
    with torch.enable_grad():
        points = phi.detach().clone().requires_grad_()
        total = value(points).sum()
    if not total.requires_grad:
        raise ValueError("the value function has no gradient in phi; the exact direction needs one: use estimator='es'")
    (slope,) = torch.autograd.grad(total, points)
    basis = gradient_basis(past_gradients).to(phi.dtype).to(phi.device)
    everywhere, subspace = _weights(basis)
    slope = slope.unsqueeze(-1)  # (population, dim, 1)
    return 2 * (everywhere * slope + subspace * basis @ (basis.mT @ slope)).squeeze(-1)


def unit_step(direction: Rows) -> Rows:
    """Each row at length 1, or 0 if it was 0, so that a learning rate is the length of a step whatever `dim`.

    u shrinks like 1 / dim outside the subspace and with the slope of f; its direction is what it has to say.

    Example:
        >>> unit_step(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    # In double precision: squares of very small or large entries would be 0 or infinite.
    rows = host(direction).astype(np.float64)
    squares = np.einsum("...d,...d->...", rows, rows)[..., None]
    return like(direction, rows / np.sqrt(np.maximum(squares, TINY)))


def variances(dim: int, rank: float) -> tuple[float, float]:
    """Weights of I and of U U^T in Eq. 3: halves of 1/dim and of 1/rank; without a subspace all is left to I.

    Example:
        >>> variances(4, 2), variances(4, 0)
        ((0.125, 0.25), (0.25, 0.0))
    """
    return (0.5 / dim, 0.5 / rank) if rank else (1.0 / dim, 0.0)


def _weights(basis: Tensor) -> tuple[Tensor, Tensor]:
    """The same for each member of a basis, (population, 1, 1) each."""
    ranks = basis.detach().square().sum((1, 2)).round().tolist()  # columns have length 1 or 0
    both = torch.tensor([variances(basis.shape[1], rank) for rank in ranks], dtype=basis.dtype, device=basis.device)
    return both[:, :1, None], both[:, 1:, None]


def _on_host(value: Value, phi: Tensor, points: np.ndarray) -> np.ndarray:
    return host(value(torch.from_numpy(points).to(phi.device)))


def host(rows: Tensor | np.ndarray) -> np.ndarray:
    """The numbers as an array in the memory of the processor, without a copy if they are there."""
    return rows if isinstance(rows, np.ndarray) else rows.detach().cpu().numpy()


def like(rows: Rows, array: np.ndarray) -> Rows:
    """The array as a tensor or an array, of the type of `rows`."""
    if isinstance(rows, np.ndarray):
        return array.astype(rows.dtype, copy=False)
    return torch.from_numpy(array).to(rows)
