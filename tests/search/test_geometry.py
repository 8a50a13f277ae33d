import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from metricopt.search.geometry import euclidean, geometry_of
from metricopt.search.outlook import measured


def matrix(features, dim, seed=0):
    return torch.randn(features, dim, generator=torch.Generator().manual_seed(seed))


@settings(deadline=None, max_examples=20)
@given(dim=st.integers(1, 12), features=st.integers(1, 30), seed=st.integers(0, 99))
def test_phi_and_whitened_coordinates_are_inverses_of_each_other(dim, features, seed):
    geometry = geometry_of(matrix(features, dim, seed).T)
    steps = matrix(7, dim, seed + 1)
    torch.testing.assert_close(geometry.plain(geometry.whitened(steps)), steps, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(geometry.whitened(geometry.plain(steps)), steps, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(geometry.to_phi @ geometry.to_whitened, torch.eye(dim), atol=1e-4, rtol=0)


def test_a_step_of_length_one_changes_linear_predictions_by_one_in_every_direction():
    responses = matrix(30, 6)
    geometry = geometry_of(responses.T)
    steps = torch.nn.functional.normalize(matrix(50, 6, seed=1))
    changes = (geometry.plain(steps) @ responses.T).norm(dim=1)
    torch.testing.assert_close(changes, torch.ones(50), atol=0.01, rtol=0)


def test_directions_that_change_next_to_nothing_are_stretched_thirtyfold_and_no_further():
    geometry = geometry_of(torch.diag(torch.tensor([4.0, 1.0, 1e-4])))
    lengths = geometry.plain(geometry.whitened(torch.eye(3)) / geometry.whitened(torch.eye(3)).norm(dim=1)[:, None])
    assert sorted(lengths.norm(dim=1).tolist()) == pytest.approx([1 / 4, 1.0, math.sqrt(1000) / 4], rel=1e-3)


def test_in_whitened_coordinates_a_small_network_changes_equally_in_well_conditioned_directions(small_task, asked):
    task = small_task(rows=60)
    phi = 0.3 * torch.randn(task.dim, generator=torch.Generator().manual_seed(3))
    probe = task.probe()
    _, geometry = measured(probe, phi, rows=60)
    # Eigenvectors of the metric tensor are the columns of to_phi; those with small roots are long steps in phi, along
    # which a network is not linear.
    roots = 1 / geometry.to_phi.norm(dim=0)
    conditioned = torch.eye(task.dim)[roots > 0.101 * roots.max()]
    assert len(conditioned) >= 5
    mixed = torch.nn.functional.normalize(matrix(40, len(conditioned), seed=4) @ conditioned)
    size = 0.01
    with torch.no_grad():
        moved = probe.responses(probe.shown(phi + size * geometry.plain(mixed), rows=60))
        changes = (moved - probe.responses(probe.shown(phi[None], rows=60))).norm(dim=1) / size
    torch.testing.assert_close(changes, torch.ones(40), atol=0.05, rtol=0)
    assert not asked


def test_gradients_follow_the_chain_rule():
    geometry = geometry_of(matrix(9, 4).T)
    slope = matrix(1, 4, seed=2)
    step = matrix(5, 4, seed=3)
    torch.testing.assert_close(step @ geometry.gradient(slope).T, geometry.plain(step) @ slope.T, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("entry", [0.0, math.nan, math.inf])
def test_without_a_usable_response_phi_is_its_own_coordinate_system(entry):
    geometry = geometry_of(torch.full((3, 5), entry))
    assert torch.equal(geometry.to_phi, torch.eye(3)) and torch.equal(geometry.to_whitened, torch.eye(3))
    assert torch.equal(euclidean(3).whitened(torch.ones(1, 3)), torch.ones(1, 3))
