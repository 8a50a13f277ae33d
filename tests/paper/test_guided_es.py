import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from metricopt.paper.guided_es import (
    antithetic_estimate,
    exact_direction,
    gradient_basis,
    guided_direction,
    perturbations,
    unit_step,
)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def bowl(points: torch.Tensor) -> torch.Tensor:
    return (points - 0.3).square().sum(1)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 3), st.integers(1, 5), st.integers(1, 9), st.integers(0, 10_000), st.sampled_from([1e-30, 1.0, 1e30])
)
def test_basis_is_orthonormal_and_spans_the_gradients_whatever_their_scale(population, memory, dim, seed, scale):
    past = normal(population, memory, dim, seed=seed).double() * scale
    basis = gradient_basis(past)
    rank = min(memory, dim)
    kept = basis.any(1)
    assert bool((kept.sum(1) == rank).all())
    torch.testing.assert_close(basis.mT @ basis, torch.diag_embed(kept.double()), atol=1e-7, rtol=0)
    unit = unit_step(past)
    torch.testing.assert_close(unit @ basis @ basis.mT, unit, atol=1e-6, rtol=0)


@pytest.mark.parametrize("bad", [0.0, float("nan"), float("inf")])
def test_zero_and_broken_gradients_add_no_direction(bad):
    sound = normal(1, 2, 6)
    broken = torch.cat([sound, torch.full((1, 1, 6), bad)], 1)
    projected = [basis @ basis.mT for basis in (gradient_basis(broken), gradient_basis(sound))]
    torch.testing.assert_close(projected[0], projected[1], atol=1e-6, rtol=0)


def test_a_gradient_that_depends_on_the_others_does_not_displace_a_later_one():
    a, b = normal(2, 6)
    basis = gradient_basis(torch.stack([a, 2 * a, b])[None])[0]
    torch.testing.assert_close(basis @ (basis.T @ b), b, atol=1e-5, rtol=0)


def test_members_of_one_population_have_their_own_rank():
    past = normal(3, 2, 4)
    past[1, 1] = -past[1, 0]
    past[2] = 0
    assert gradient_basis(past).any(1).sum(1).tolist() == [2, 1, 0]


def test_a_population_is_its_members_one_by_one():
    phi, past = normal(4, 7), normal(4, 3, 7, seed=1)
    basis = gradient_basis(past)
    deltas = perturbations(basis, 5, 0.1, torch.Generator().manual_seed(2))
    together = antithetic_estimate(bowl, phi, deltas, 0.1), exact_direction(bowl, phi, past)
    for member in range(4):
        one = slice(member, member + 1)
        torch.testing.assert_close(together[0][one], antithetic_estimate(bowl, phi[one], deltas[one], 0.1))
        torch.testing.assert_close(together[1][one], exact_direction(bowl, phi[one], past[one]))
        torch.testing.assert_close(basis[one], gradient_basis(past[one]))


def test_the_value_function_is_called_once_without_a_graph_for_all_pairs_of_all_members():
    shapes = []

    def value(points: torch.Tensor) -> torch.Tensor:
        assert not torch.is_grad_enabled()
        shapes.append(tuple(points.shape))
        return bowl(points)

    guided_direction(value, normal(4, 7), normal(4, 3, 7), pairs=5, generator=torch.Generator().manual_seed(0))
    assert shapes == [(40, 7)]


def test_the_same_seed_gives_the_same_bits():
    first, second = (
        guided_direction(bowl, normal(2, 5), normal(2, 3, 5), generator=torch.Generator().manual_seed(3))
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
        exact_direction(lambda points: bowl(points.detach()), torch.ones(1, 3), torch.zeros(1, 1, 3))


@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=6))
def test_a_unit_step_has_length_one_or_zero(direction):
    row = torch.tensor([direction])
    length = unit_step(row).norm().item()
    tiny = row.abs().max() < 2 * torch.finfo(torch.float32).tiny
    assert (length <= 1 + 1e-5) if tiny else length == pytest.approx(1, abs=1e-5)
    if row.abs().max() == 0:
        assert length == 0
