import math
import warnings

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from metricopt.core.errors import FlatValueWarning
from metricopt.paper.diagnostics import ValueHealth, health, warn_if_flat

PHI = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
SLOPE = torch.tensor([0.03, -0.04, 0.0])


def linear(phi):
    return 0.5 + phi @ SLOPE


def report(rank=0.9, gradient=1.0):
    return ValueHealth(observations=9, error=0.1, rank_correlation=rank, gradient_size=gradient, spread=0.2)


def test_its_numbers_are_those_of_numpy_and_scipy():
    costs = linear(PHI) + 0.05 * torch.randn(40, generator=torch.Generator().manual_seed(1))
    found = health(linear, PHI, costs)
    expected = spearmanr(linear(PHI).numpy(), costs.numpy())
    assert found.rank_correlation == pytest.approx(expected[0])
    assert 0.2 < found.rank_correlation < 0.99
    assert found.error == pytest.approx(np.abs(linear(PHI).numpy() - costs.numpy()).mean(), rel=1e-5)
    assert found.spread == pytest.approx(costs.numpy().std(), rel=1e-5)
    assert found.gradient_size == pytest.approx(0.05, rel=1e-5)  # |(.03, -.04)|
    assert found.observations == 40 and not found.flat


def test_failed_queries_are_left_out():
    costs = linear(PHI).double()
    holes = costs.clone()
    holes[::3] = math.nan
    keep = ~holes.isnan()
    assert health(linear, PHI, holes) == health(linear, PHI[keep], costs[keep])
    assert health(linear, PHI, holes).observations == int(keep.sum())


def test_a_function_without_a_graph_or_under_no_grad_is_measured_too():
    numpy_only = health(lambda phi: torch.from_numpy(linear(phi.detach()).numpy()), PHI, linear(PHI))
    assert numpy_only.gradient_size == 0 and numpy_only.rank_correlation == pytest.approx(1)
    with torch.no_grad():
        assert health(linear, PHI, linear(PHI)).gradient_size == pytest.approx(0.05, rel=1e-5)


@pytest.mark.parametrize("level", [0.0, 0.1, 0.3])
def test_a_constant_is_flat_and_says_the_remedy(level):
    found = health(lambda phi: 0 * phi[:, 0] + level, PHI, linear(PHI))
    assert (found.rank_correlation, found.gradient_size, found.flat) == (0.0, 0.0, True)
    with pytest.warns(FlatValueWarning, match="is flat: rank correlation 0.00.*train it offline with norm='none'"):
        warn_if_flat(found)


def test_costs_that_never_vary_rank_nothing():
    assert health(linear, PHI, torch.full((40,), 0.1)).rank_correlation == 0.0


def test_a_function_that_orders_the_costs_the_wrong_way_round_is_flat_too():
    assert health(lambda phi: -linear(phi), PHI, linear(PHI)).flat


def test_a_diverged_function_is_flat():
    assert health(lambda phi: linear(phi) * math.nan, PHI, linear(PHI)).flat
    assert report(rank=math.nan).flat and report(gradient=math.nan).flat


def test_without_a_single_answer_nothing_is_known():
    found = health(linear, PHI, torch.full((40,), math.nan))
    assert found.observations == 0 and found.flat


@pytest.mark.parametrize(("rank", "gradient", "flat"), [(0.19, 1, True), (0.21, 1, False), (0.9, 1e-9, True)])
def test_flat_means_no_ranking_or_no_slope(rank, gradient, flat):
    assert report(rank, gradient).flat is flat


def test_a_good_one_is_not_warned_about():
    with warnings.catch_warnings(action="error"):
        warn_if_flat(report())
