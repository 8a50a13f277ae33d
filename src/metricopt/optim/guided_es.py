"""Equations 3 and 4: a descent direction of the value function, searched mostly among recent loss gradients.

Pure functions, population first: phi is (population, dim), and each member has its own gradients and perturbations.
"""

from collections.abc import Callable

import torch
from torch import Tensor

# Any function from points (n, dim) to values (n,) whose rows do not influence each other.
Value = Callable[[Tensor], Tensor]

# Unit gradients whose smallest combination is shorter than this differ by little more than float32 rounding.
SMALLEST_SINGULAR_VALUE = 1e-4


def gradient_basis(past_gradients: Tensor) -> Tensor:
    """Orthonormal basis U of the span of each member's past gradients, (population, dim, memory).

    Gradients that are zero or combinations of the others add no direction: as many columns as the rank is smaller
    than `memory` are zero. Entries that are not finite count as zero.

    Args:
        past_gradients: Loss gradients, in any order and of any length, (population, memory, dim).

    Example:
        >>> twice_the_same = torch.tensor([[[3.0, 0.0, 0.0], [-6.0, 0.0, 0.0]]])
        >>> gradient_basis(twice_the_same).abs().sum(1)
        tensor([[0., 1.]])
    """
    rows = torch.nan_to_num(past_gradients.double(), nan=0.0, posinf=0.0, neginf=0.0)
    # By the small Gram matrix rather than QR: without pivoting QR puts an arbitrary direction where a column depends
    # on earlier ones, and dropping that direction would also drop a part of the columns after it.
    gram = rows @ rows.mT  # (population, memory, memory)
    to_unit = gram.diagonal(dim1=-2, dim2=-1).clamp_min(torch.finfo(rows.dtype).tiny).rsqrt().unsqueeze(-1)
    squares, rotation = torch.linalg.eigh(to_unit * gram * to_unit.mT)
    scale = torch.where(squares > SMALLEST_SINGULAR_VALUE**2, squares, torch.inf).rsqrt().unsqueeze(-2)
    return (rows.mT @ (to_unit * rotation * scale)).to(past_gradients.dtype)


def search_covariance(basis: Tensor) -> Tensor:
    """Sigma = I / (2 dim) + U U^T / (2 k) with k the rank of the basis (Eq. 3), (population, dim, dim).

    Its trace is always 1: without any gradient it is I / dim, a search in all directions alike.

    Example:
        >>> basis = gradient_basis(torch.tensor([[[1.0, 0.0]]]))
        >>> search_covariance(basis)
        tensor([[[0.7500, 0.0000],
                 [0.0000, 0.2500]]])
    """
    everywhere, subspace = _variances(basis)
    identity = torch.eye(basis.shape[1], dtype=basis.dtype, device=basis.device)
    return everywhere * identity + subspace * basis @ basis.mT


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
    shape = (population, pairs, dim + memory)
    noise = torch.randn(shape, generator=generator, dtype=basis.dtype, device=generator.device).to(basis.device)
    everywhere, subspace = _variances(basis)
    free, within = noise.split([dim, memory], dim=-1)
    return sigma * (everywhere.sqrt() * free + subspace.sqrt() * within @ basis.mT)


def antithetic_estimate(value: Value, phi: Tensor, deltas: Tensor, sigma: float) -> Tensor:
    """u = 1 / (sigma^2 P) * sum_i delta_i [f(phi + delta_i) - f(phi - delta_i)] (Eq. 4), (population, dim).

    Args:
        value: f, called once with all points of all members.
        phi: Where to estimate, (population, dim).
        deltas: Perturbations delta_i, (population, pairs, dim).
        sigma: s, with which they were drawn.

    Example:
        >>> deltas = torch.tensor([[[0.1, 0.0]]])
        >>> antithetic_estimate(lambda points: points.sum(1), torch.zeros(1, 2), deltas, 0.1)
        tensor([[2.0000, 0.0000]])
    """
    population, pairs, _ = deltas.shape
    centre = phi.unsqueeze(1)
    points = torch.cat([centre + deltas, centre - deltas], dim=1)  # (population, 2 pairs, dim)
    ahead, behind = value(points.flatten(0, 1)).view(population, 2, pairs).unbind(1)
    return ((ahead - behind).unsqueeze(1) @ deltas).squeeze(1) / (sigma**2 * pairs)


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
    basis = gradient_basis(past_gradients)  # (population, dim, memory)
    deltas = perturbations(basis, pairs, sigma, generator)  # (population, pairs, dim)
    return antithetic_estimate(value, phi, deltas, sigma)


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
    basis = gradient_basis(past_gradients)
    everywhere, subspace = _variances(basis)
    slope = slope.unsqueeze(-1)  # (population, dim, 1)
    return 2 * (everywhere * slope + subspace * basis @ (basis.mT @ slope)).squeeze(-1)


def unit_step(direction: Tensor) -> Tensor:
    """Each row at length 1, or 0 if it was 0, so that a learning rate is the length of a step whatever `dim`.

    u shrinks like 1 / dim outside the subspace and with the slope of f; its direction is what it has to say.

    Example:
        >>> unit_step(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    # By the largest entry first: squares of very small or large entries would be 0 or infinite.
    tiny = torch.finfo(direction.dtype).tiny
    scaled = direction / direction.abs().amax(-1, keepdim=True).clamp_min(tiny)
    return scaled / torch.linalg.vector_norm(scaled, dim=-1, keepdim=True).clamp_min(0.5)


def _variances(basis: Tensor) -> tuple[Tensor, Tensor]:
    """Weights of I and of U U^T in Eq. 3, (population, 1, 1) each; they are halves of 1/dim and of 1/rank."""
    dim = basis.shape[1]
    rank = basis.square().sum((1, 2), keepdim=True).round()  # columns have length 1 or 0
    return torch.where(rank > 0, 0.5 / dim, 1.0 / dim), 0.5 / rank.clamp_min(1)
