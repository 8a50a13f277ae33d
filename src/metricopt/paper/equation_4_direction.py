"""Equation 4: u_t, the direction in which the value function rises, estimated by guided evolution strategies.

Population first: phi is (population, dim), and each member has its own gradients and perturbations.
"""

import torch
from torch import Tensor

from metricopt.paper.equation_3_covariance import gradient_basis, perturbations, times_covariance
from metricopt.paper.gram_schmidt import TINY
from metricopt.paper.value_function import ValueFunction


def antithetic_estimate(value: ValueFunction, phi: Tensor, deltas: Tensor, sigma: float) -> Tensor:
    """u = 1 / (sigma^2 P) * sum_i delta_i [f(phi + delta_i) - f(phi - delta_i)] (Eq. 4), (population, dim).

    Args:
        value: f, called once with all points of all members.
        phi: Where to estimate, (population, dim).
        deltas: Perturbations delta_i, (population, pairs, dim).
        sigma: s, with which they were drawn.

    Example:
        >>> deltas = torch.tensor([[[0.5, 0.0]]])
        >>> antithetic_estimate(lambda points: points.sum(1), torch.zeros(1, 2), deltas, 0.5)
        tensor([[2., 0.]])
    """
    population, pairs, dim = deltas.shape
    points = phi[:, None] + torch.cat([deltas, -deltas], 1)  # (population, 2 pairs, dim)
    values = value(points.reshape(-1, dim)).reshape(population, 2, pairs)
    change = (values[:, :1] - values[:, 1:]).to(deltas)  # (population, 1, pairs)
    return (change @ deltas).squeeze(1) / (sigma**2 * pairs)


@torch.no_grad()
def guided_direction(
    value: ValueFunction,
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
    basis = gradient_basis(past_gradients).to(phi)  # U, (population, dim, memory)
    deltas = perturbations(basis, pairs, sigma, generator)  # (population, pairs, dim)
    return antithetic_estimate(value, phi, deltas, sigma)


def exact_direction(value: ValueFunction, phi: Tensor, past_gradients: Tensor) -> Tensor:
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
    basis = gradient_basis(past_gradients).to(phi)  # U, (population, dim, memory)
    return 2 * times_covariance(basis, slope)


def unit_step(direction: Tensor) -> Tensor:
    """Each row at length 1, or 0 if it was 0, so that a learning rate is the length of a step whatever `dim`.

    u shrinks like 1 / dim outside the subspace and with the slope of f; its direction is what it has to say.

    Example:
        >>> unit_step(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    # In double precision: squares of very small or large entries would be 0 or infinite.
    rows = direction.double()
    squares = rows.square().sum(-1, keepdim=True).clamp_min(TINY)
    return (rows / squares.sqrt()).to(direction)
