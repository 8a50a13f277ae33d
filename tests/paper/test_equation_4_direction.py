"""Equation 4: u = 1 / (s^2 P) * sum_i delta_i [f(phi + delta_i) - f(phi - delta_i)], which estimates 2 Sigma grad f."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from metricopt.paper.equation_3_covariance import gradient_basis, perturbations, search_covariance
from metricopt.paper.equation_4_direction import antithetic_estimate, exact_direction, guided_direction, unit_step

DIM = 5


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def quadratic(points: torch.Tensor) -> torch.Tensor:
    curvature = torch.diag(torch.arange(1.0, DIM + 1, dtype=points.dtype))
    return ((points @ curvature) * points).sum(1) / 2 + points[:, 0]


def perceptron() -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = torch.nn.Linear(DIM, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1), torch.nn.Flatten(0)
        return torch.nn.Sequential(*layers).double()


def test_estimate_is_the_papers_sum():
    phi, deltas, sigma = normal(2, DIM), 0.1 * normal(2, 3, DIM, seed=1), 0.1
    expected = torch.zeros(2, DIM, dtype=torch.float64)
    for member in range(2):
        for delta in deltas[member]:
            ahead, behind = quadratic((phi[member] + delta)[None]), quadratic((phi[member] - delta)[None])
            expected[member] += delta * (ahead - behind) / (sigma**2 * 3)
    torch.testing.assert_close(antithetic_estimate(quadratic, phi, deltas, sigma), expected)


def test_exact_direction_is_twice_sigma_times_the_gradient():
    phi, past = normal(3, DIM), normal(3, 2, DIM, seed=1)
    slope = phi * torch.arange(1, DIM + 1)
    slope[:, 0] += 1
    expected = 2 * (search_covariance(gradient_basis(past)) @ slope[..., None]).squeeze(-1)
    torch.testing.assert_close(exact_direction(quadratic, phi, past), expected)


@pytest.mark.parametrize("value", [quadratic, perceptron()], ids=["quadratic", "perceptron"])
def test_the_error_of_the_estimate_falls_with_the_square_root_of_the_pairs(value):
    phi, past = normal(1, DIM), normal(1, 2, DIM, seed=1)
    exact = exact_direction(value, phi, past)
    few, many = (
        torch.stack(
            [
                guided_direction(
                    value, phi, past, pairs=pairs, sigma=0.01, generator=torch.Generator().manual_seed(seed)
                )
                for seed in range(60)
            ]
        )
        for pairs in (10, 1000)
    )
    errors = [(estimates - exact).square().sum(-1).mean().sqrt() / exact.norm() for estimates in (few, many)]
    # 100 times the pairs, a tenth of the error, itself measured to about 1 / sqrt(2 * 60) = 9% each.
    assert errors[0] / errors[1] == pytest.approx(10, rel=0.35)
    assert errors[1] < 0.1


def test_on_a_linear_function_the_estimate_has_no_error_but_that_of_the_sampled_covariance():
    slope, phi, past, sigma = normal(DIM), normal(1, DIM, seed=1), normal(1, 2, DIM, seed=2), 0.5
    deltas = perturbations(gradient_basis(past), 7, sigma, torch.Generator().manual_seed(0))
    sampled = deltas[0].mT @ deltas[0] / (7 * sigma**2)
    estimate = antithetic_estimate(lambda points: points @ slope + 3, phi, deltas, sigma)
    torch.testing.assert_close(estimate[0], 2 * sampled @ slope)


def test_on_a_quadratic_even_terms_cancel_exactly():
    phi, deltas = torch.zeros(1, DIM, dtype=torch.float64), normal(1, 4, DIM)
    even = antithetic_estimate(lambda points: points.square().sum(1), phi, deltas, 1.0)
    assert torch.equal(even, torch.zeros_like(even))


def test_a_population_is_its_members_one_by_one():
    phi, past = normal(4, DIM), normal(4, 3, DIM, seed=1)
    basis = gradient_basis(past)
    deltas = perturbations(basis, 5, 0.1, torch.Generator().manual_seed(2))
    together = antithetic_estimate(quadratic, phi, deltas, 0.1), exact_direction(quadratic, phi, past)
    for member in range(4):
        one = slice(member, member + 1)
        torch.testing.assert_close(together[0][one], antithetic_estimate(quadratic, phi[one], deltas[one], 0.1))
        torch.testing.assert_close(together[1][one], exact_direction(quadratic, phi[one], past[one]))
        torch.testing.assert_close(basis[one], gradient_basis(past[one]))


def test_the_value_function_is_called_once_without_a_graph_for_all_pairs_of_all_members():
    shapes = []

    def value(points: torch.Tensor) -> torch.Tensor:
        assert not torch.is_grad_enabled()
        shapes.append(tuple(points.shape))
        return quadratic(points)

    guided_direction(value, normal(4, DIM), normal(4, 3, DIM), pairs=5, generator=torch.Generator().manual_seed(0))
    assert shapes == [(40, DIM)]


def test_the_same_seed_gives_the_same_bits():
    first, second = (
        guided_direction(quadratic, normal(2, DIM), normal(2, 3, DIM), generator=torch.Generator().manual_seed(3))
        for _ in range(2)
    )
    assert torch.equal(first, second)


def test_the_exact_direction_leaves_no_gradient_behind():
    net = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Flatten(0))
    phi = torch.nn.Parameter(torch.ones(2, 3))
    direction = exact_direction(net, phi, torch.zeros(2, 1, 3))
    assert phi.grad is None and all(parameter.grad is None for parameter in net.parameters())
    assert not direction.requires_grad


def test_the_exact_direction_of_a_function_without_gradient_is_refused():
    with pytest.raises(ValueError, match="no gradient in phi"):
        exact_direction(lambda points: quadratic(points.detach()), torch.ones(1, DIM), torch.zeros(1, 1, DIM))


@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=6))
def test_a_unit_step_has_length_one_or_zero(direction):
    row = torch.tensor([direction])
    length = unit_step(row).norm().item()
    tiny = row.abs().max() < 2 * torch.finfo(torch.float32).tiny
    assert (length <= 1 + 1e-5) if tiny else length == pytest.approx(1, abs=1e-5)
    if row.abs().max() == 0:
        assert length == 0
