import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from metricopt.search.proposals import sparse_steps, steps_in_span, within


def draw(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("dim", "expected"), [(4, 4.0), (8, 8.0), (64, 8.0)])
def test_sparse_steps_change_about_eight_coordinates_by_standard_normal_numbers(dim, expected):
    steps = sparse_steps(4000, dim, draw())
    changed = (steps != 0).sum(1).float()
    assert steps.shape == (4000, dim)
    assert abs(float(changed.mean()) - expected) < 4 * (8 / 4000) ** 0.5
    assert abs(float(steps[steps != 0].std()) - 1) < 0.05


@settings(deadline=None, max_examples=25)
@given(count=st.integers(1, 9), dim=st.integers(2, 12), seed=st.integers(0, 99))
def test_steps_in_a_span_lie_in_it(count, dim, seed):
    vectors = torch.randn(count, dim, generator=draw(seed))
    steps = steps_in_span(vectors, 40, draw(seed + 1)).double()
    assert steps.shape == (40, dim)
    inside = torch.linalg.lstsq(vectors.double().T, steps.T).solution.T @ vectors.double()
    torch.testing.assert_close(inside, steps, atol=1e-3, rtol=0)


def test_steps_in_a_span_reach_all_of_it():
    vectors = torch.randn(3, 10, generator=draw())
    assert int(torch.linalg.matrix_rank(steps_in_span(vectors, 50, draw(1)))) == 3


@settings(deadline=None, max_examples=25)
@given(radius=st.floats(0.01, 5.0), dim=st.integers(1, 12), seed=st.integers(0, 99))
def test_steps_keep_their_direction_and_end_within_one_and_a_half_radii(radius, dim, seed):
    steps = torch.randn(60, dim, generator=draw(seed))
    scaled = within(radius, steps, draw(seed + 1))
    assert float(scaled.norm(dim=1).max()) <= 1.5 * radius * (1 + 1e-5)
    cosines = torch.nn.functional.cosine_similarity(scaled.double(), steps.double(), eps=1e-12)
    torch.testing.assert_close(cosines, torch.ones_like(cosines), atol=1e-4, rtol=0)


def test_half_of_the_steps_are_longer_than_the_radius_and_zero_steps_are_dropped():
    steps = torch.cat([torch.zeros(7, 5), torch.randn(4000, 5, generator=draw())])
    scaled = within(1.0, steps, draw(1))
    assert len(scaled) == 4000 and bool(torch.isfinite(scaled).all())
    # Lengths are 1.5 sqrt(u): P(length > 1) = 1 - 4/9.
    assert abs(float((scaled.norm(dim=1) > 1).float().mean()) - 5 / 9) < 4 * (20 / 81 / 4000) ** 0.5
