"""The evolving distribution against the published update, written as plain loops."""

import math

import pytest
import torch

from metricopt.search.archive import Archive
from metricopt.search.evolution_arm import EvolutionArm, utilities
from metricopt.task.oracle import Oracle
from metricopt.task.quadratic import QuadraticTask

DIM = 5


def asked(queries, pulls):
    """Every phi that the arm has asked about, and its costs."""
    archive = Archive(Oracle(QuadraticTask(dim=DIM)), queries)
    archive.observe(torch.zeros(1, DIM), stage="start")
    arm = EvolutionArm(DIM, spread=0.6, generator=torch.Generator().manual_seed(3))
    for _ in range(pulls):
        arm.pull(archive)
    return archive.points[1:], archive.costs[1:]


def test_each_generation_is_drawn_where_the_ranks_of_the_one_before_have_moved_mean_and_deviations():
    points, costs = asked(100, 3)
    size = 4 + math.floor(3 * math.log(DIM))
    assert len(points) == 3 * size
    draw, weights = torch.Generator().manual_seed(3), utilities(size).tolist()
    mean, spread = [0.0] * DIM, [0.6] * DIM
    for generation in range(3):
        noise = torch.randn(size, DIM, generator=draw)
        mine = slice(generation * size, (generation + 1) * size)
        torch.testing.assert_close(points[mine], torch.tensor(mean) + torch.tensor(spread) * noise)
        order = sorted(range(size), key=lambda member: float(costs[mine][member]))
        for axis in range(DIM):
            steps = [float(noise[member, axis]) for member in order]
            move = sum(weight * step for weight, step in zip(weights, steps, strict=True))
            wider = sum(weight * (step**2 - 1) for weight, step in zip(weights, steps, strict=True))
            mean[axis] += spread[axis] * move
            spread[axis] *= math.exp((3 + math.log(DIM)) / (5 * math.sqrt(DIM)) / 2 * wider)


def test_a_generation_cut_short_by_the_budget_is_asked_as_far_as_it_goes():
    points, _ = asked(6, 2)
    assert len(points) == 5


@pytest.mark.parametrize("size", [4, 15])
def test_weights_of_ranks_sum_to_nothing_and_fall(size):
    weights = utilities(size)
    assert float(weights.sum()) == pytest.approx(0, abs=1e-6)
    assert bool((weights.diff() <= 0).all())
