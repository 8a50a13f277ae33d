import pytest
import torch

from metricopt.search.archive import Archive
from metricopt.search.memory import LIMIT, Memory
from metricopt.search.recipe import Recipe
from metricopt.search.value_arm import ValueArm
from metricopt.task.oracle import Oracle
from metricopt.task.quadratic import QuadraticTask
from metricopt.task.views import LABELS, PROBABILITIES, RAW


def answers(count, seed=0):
    draw = torch.Generator().manual_seed(seed)
    outputs = torch.randn(count, 20, 3, generator=draw)
    return torch.randn(count, 2, generator=draw), outputs, torch.rand(count, generator=draw)


def squares_of(features):
    """Between all pairs, one by one."""
    return torch.stack([torch.stack([(a - b).double().square().sum() for b in features]) for a in features])


@pytest.mark.parametrize("view", [LABELS, PROBABILITIES, RAW], ids=lambda view: view.name)
def test_distances_are_the_same_whether_points_come_one_by_one_or_at_once(view):
    points, outputs, costs = answers(12)
    memory = Memory((view,))
    for start, end in ((0, 1), (1, 6), (6, 6), (6, 12)):
        memory.add(points[start:end], outputs[start:end], costs[start:end])
    torch.testing.assert_close(memory.features(view), view.features(outputs))
    torch.testing.assert_close(memory.squares(view), squares_of(view.features(outputs)), atol=1e-5, rtol=1e-5)
    assert torch.equal(memory.points, points) and torch.equal(memory.costs, costs) and memory.taken == 12


def test_what_looks_least_like_the_best_point_is_forgotten_in_every_view():
    points, outputs, costs = answers(10)
    memory = Memory((PROBABILITIES, RAW), limit=6)
    memory.add(points, outputs, costs)
    memory.forget(PROBABILITIES)
    apart = squares_of(PROBABILITIES.features(outputs))[costs.argmin()]
    kept = sorted(apart.argsort()[:6].tolist())
    assert torch.equal(memory.points, points[kept]) and torch.equal(memory.costs, costs[kept])
    assert float(memory.costs.min()) == float(costs.min())
    torch.testing.assert_close(memory.squares(RAW), squares_of(RAW.features(outputs[kept])), atol=1e-5, rtol=1e-5)


def test_nothing_is_forgotten_below_the_limit():
    memory = Memory((RAW,), limit=10)
    memory.add(*answers(10))
    memory.forget(RAW)
    assert len(memory.costs) == 10


def test_a_value_function_is_fitted_to_no_more_answers_however_many_there_are():
    oracle = Oracle(QuadraticTask(dim=4))
    archive = Archive(oracle, 1000)
    draw = torch.Generator().manual_seed(0)
    arm = ValueArm(oracle, Recipe(candidates=20), landmarks=torch.zeros(1, 4), generator=draw)
    for _ in range(9):
        archive.observe(0.3 * torch.randn(100, 4, generator=draw), stage="start")
        arm.pull(archive)
        assert arm.value is not None and len(arm.value.features) <= LIMIT
    assert len(archive.costs) > 900
