"""Equation 3: Sigma = I / (2 d) + U U^T / (2 k), with U an orthonormal basis of the last k loss gradients."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from metricopt.paper.equation_3_covariance import gradient_basis, perturbations, search_covariance, times_covariance
from metricopt.paper.equation_4_direction import unit_step


def gradients(population: int, memory: int, dim: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(population, memory, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def projector(rows: torch.Tensor) -> torch.Tensor:
    """Onto the span of the rows, by the pseudo-inverse."""
    return torch.linalg.pinv(rows, rtol=1e-8) @ rows


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 12), st.integers(0, 10_000))
def test_covariance_is_the_papers_formula_with_trace_one(population, memory, dim, seed):
    past = gradients(population, memory, dim, seed)
    rank = min(memory, dim)
    sigma = search_covariance(gradient_basis(past))
    for member in range(population):
        expected = torch.eye(dim) / (2 * dim) + projector(past[member]) / (2 * rank)
        torch.testing.assert_close(sigma[member], expected.double(), atol=1e-6, rtol=0)
        assert sigma[member].trace().item() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("memory", [1, 3])
def test_samples_have_the_papers_covariance(memory):
    dim, pairs, sigma = 6, 200_000, 0.1
    basis = gradient_basis(gradients(2, memory, dim))
    deltas = perturbations(basis, pairs, sigma, torch.Generator().manual_seed(1))
    sampled = deltas.mT @ deltas / pairs
    expected = sigma**2 * search_covariance(basis)
    # An entry of a sampled covariance has variance (S_ij^2 + S_ii S_jj) / n; five deviations for 72 entries.
    diagonal = expected.diagonal(dim1=-2, dim2=-1)
    deviation = ((expected.square() + diagonal[:, :, None] * diagonal[:, None, :]) / pairs).sqrt()
    assert bool(((sampled - expected).abs() < 5 * deviation).all())


def test_without_gradients_all_directions_are_alike():
    basis = gradient_basis(torch.zeros(1, 3, 5))
    torch.testing.assert_close(search_covariance(basis), torch.eye(5)[None] / 5)
    deltas = perturbations(basis, 100_000, 1.0, torch.Generator().manual_seed(0))
    assert deltas.square().sum(-1).mean().item() == pytest.approx(1, abs=0.02)


def test_parallel_gradients_count_once():
    first, second = torch.tensor([1.0, 2.0, 0.0, 0.0]), torch.tensor([0.0, 0.0, 3.0, 1.0])
    basis = gradient_basis(torch.stack([first, -2 * first, second])[None])
    assert int(basis.any(1).sum()) == 2
    expected = torch.eye(4) / 8 + projector(torch.stack([first, second])) / 4
    torch.testing.assert_close(search_covariance(basis)[0], expected, atol=1e-6, rtol=0)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 3), st.integers(1, 5), st.integers(1, 9), st.integers(0, 10_000), st.sampled_from([1e-30, 1.0, 1e30])
)
def test_basis_is_orthonormal_and_spans_the_gradients_whatever_their_scale(population, memory, dim, seed, scale):
    past = gradients(population, memory, dim, seed) * scale
    basis = gradient_basis(past)
    rank = min(memory, dim)
    kept = basis.any(1)
    assert bool((kept.sum(1) == rank).all())
    torch.testing.assert_close(basis.mT @ basis, torch.diag_embed(kept.double()), atol=1e-7, rtol=0)
    unit = unit_step(past)
    torch.testing.assert_close(unit @ basis @ basis.mT, unit, atol=1e-6, rtol=0)


@pytest.mark.parametrize("bad", [0.0, float("nan"), float("inf")])
def test_zero_and_broken_gradients_add_no_direction(bad):
    sound = gradients(1, 2, 6)
    broken = torch.cat([sound, torch.full((1, 1, 6), bad)], 1)
    projected = [basis @ basis.mT for basis in (gradient_basis(broken), gradient_basis(sound))]
    torch.testing.assert_close(projected[0], projected[1], atol=1e-6, rtol=0)


def test_a_gradient_that_depends_on_the_others_does_not_displace_a_later_one():
    a, b = gradients(1, 2, 6)[0]
    basis = gradient_basis(torch.stack([a, 2 * a, b])[None])[0]
    torch.testing.assert_close(basis @ (basis.T @ b), b, atol=1e-5, rtol=0)


def test_members_of_one_population_have_their_own_rank():
    past = gradients(3, 2, 4)
    past[1, 1] = -past[1, 0]
    past[2] = 0
    assert gradient_basis(past).any(1).sum(1).tolist() == [2, 1, 0]


def test_the_product_with_the_covariance_does_not_need_it():
    basis = gradient_basis(gradients(3, 2, 5))
    slope = gradients(3, 1, 5, seed=1)[:, 0]
    expected = torch.einsum("pij,pj->pi", search_covariance(basis), slope)
    torch.testing.assert_close(times_covariance(basis, slope), expected)
