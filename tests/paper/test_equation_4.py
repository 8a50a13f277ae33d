"""Equation 4: u = 1 / (s^2 P) * sum_i delta_i [f(phi + delta_i) - f(phi - delta_i)], which estimates 2 Sigma grad f."""

import pytest
import torch

from metricopt.paper.guided_es import (
    antithetic_estimate,
    exact_direction,
    gradient_basis,
    guided_direction,
    perturbations,
    search_covariance,
)

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
