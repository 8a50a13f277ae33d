import math
from dataclasses import replace

import pytest
import torch

from metricopt.core.errors import BudgetError, MetricError
from metricopt.run.ledger import QueryLedger
from metricopt.search.archive import Archive
from metricopt.search.recipe import Recipe
from metricopt.search.starts import loss_starts
from metricopt.search.walk import _spend, walk
from metricopt.task.base import Task
from metricopt.task.oracle import Oracle
from metricopt.task.probe import Probe
from metricopt.task.quadratic import QuadraticTask, distance_at

FAST = Recipe(candidates=80)


def found_by(oracle, queries, *, seed=0, recipe=FAST, starts=None):
    starts = torch.zeros(0, oracle.dim) if starts is None else starts
    return walk(oracle, queries=queries, seed=seed, starts=starts, recipe=recipe)


class Slope:
    """An arm that makes `queries` queries, each of which lowers the cost by `gain`."""

    spent = False

    def __init__(self, gain, queries=1):
        self.gain, self.queries, self.made = gain, queries, 0

    def pull(self, archive):
        before = len(archive.costs)
        archive.observe(archive.best.repeat(self.queries, 1) + self.gain, stage="slope")
        self.made += len(archive.costs) - before

    def level(self, archive):
        return archive.best_cost

    def blocked(self, archive):  # noqa: ARG002
        return False


class Downhill(Task):
    """The further along the first coordinate, the better."""

    dim = 1

    def batches(self, population, generator):
        raise NotImplementedError

    def loss(self, phi, batch):
        raise NotImplementedError

    def costs(self, phi):
        return 1.0 - phi[:, 0] / 1000


@pytest.mark.parametrize(
    ("seed", "recipe"),
    [
        (0, FAST),
        (1, FAST),
        (2, FAST),
        (3, Recipe(candidates=80, shifts=False)),
        (4, Recipe(candidates=80, guided=False)),
        (5, Recipe(candidates=80, whiten=False)),
        (6, Recipe(candidates=80, views=False, descent=30)),
        (7, Recipe(candidates=300, descent=0)),
    ],
    ids=["one", "two", "three", "no shifts", "not guided", "not whitened", "over phi", "no descent"],
)
def test_the_quadratic_task_is_solved(seed, recipe):
    task = QuadraticTask(dim=6, seed=seed)
    oracle = Oracle(task)
    found = found_by(oracle, 120, seed=seed, recipe=recipe)
    # The optimum is 1 away from the start, at a cost of 0.39; a tenth of the way is left at most.
    assert float((found.outcome.phi - task.optimum).norm()) < distance_at(0.005) == pytest.approx(0.1, abs=0.001)
    assert found.rank_correlation > 0.6
    assert oracle.ledger.used == 120


def test_the_same_seed_gives_the_same_bits_and_another_does_not():
    first, again, other = (found_by(Oracle(QuadraticTask(dim=5)), 60, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.outcome.phi, again.outcome.phi)
    assert first.rank_correlation == again.rank_correlation
    assert not torch.equal(first.outcome.phi, other.outcome.phi)


@pytest.mark.parametrize("queries", [1, 2, 3, 7, 30])
def test_exactly_the_queries_granted_are_made_and_phi_zero_is_the_first(queries):
    task = QuadraticTask(dim=4)
    oracle = Oracle(task, QueryLedger(budget=queries))  # one more would be an error
    starts = torch.stack([task.loss_optimum, task.optimum])
    found = found_by(oracle, queries, starts=starts)
    assert oracle.ledger.used == len(oracle.ledger.queries) == queries
    assert oracle.ledger.queries[0].cost == float(task.costs(torch.zeros(1, 4)))
    assert torch.equal(found.outcome.phi, (torch.zeros(4), starts[0], starts[1])[min(queries, 3) - 1])


def test_starts_are_left_out_on_request():
    task = QuadraticTask(dim=4)
    oracle = Oracle(task)
    found_by(oracle, 5, starts=task.optimum[None], recipe=Recipe(starts=False))
    assert [query.stage for query in oracle.ledger.queries][:2] != ["start", "start"]


def test_starts_are_where_the_loss_is_lowest_and_cost_no_query():
    class Unasked(QuadraticTask):
        def costs(self, phi):
            raise AssertionError(f"the metric was asked about {len(phi)} members")

    task = Unasked(dim=4)
    ends = loss_starts(task.probe(), steps=300, lr=0.1, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(ends, task.loss_optimum[None], atol=0.1, rtol=0)


def test_starts_that_diverged_are_dropped():
    class Diverging(Downhill):
        def batches(self, population, generator):  # noqa: ARG002
            while True:
                yield torch.tensor([1.0, math.nan])

        def loss(self, phi, batch):
            return (phi[:, 0] - 1).square() * batch

    class Two(Probe):
        def start_batches(self, generator):
            return 2, self.task.batches(2, generator)

    ends = loss_starts(Two(Diverging()), steps=200, lr=0.1, generator=torch.Generator())
    torch.testing.assert_close(ends, torch.ones(1, 1), atol=0.05, rtol=0)


def spent_on(arms, queries=200, least=0.25):
    archive = Archive(Oracle(Downhill()), queries + 1)
    archive.observe(torch.zeros(1, 1), stage="start")
    _spend(archive, arms, least=least)
    assert sum(arm.made for arm in arms) == queries
    return [arm.made for arm in arms]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("sizes", [(1, 1), (2, 5)])
def test_an_arm_that_never_gains_gets_its_least_share_and_the_other_the_rest(order, sizes):
    arms = [Slope(1.0, sizes[0]), Slope(0.0, sizes[1])][::order]
    gaining = spent_on(arms)[::order][0]
    assert 0.7 * 200 <= gaining <= 0.9 * 200  # a quarter of the other's queries would be 160 to 40


def test_arms_that_gain_alike_share_alike():
    one, other = spent_on([Slope(1.0), Slope(1.0)])
    assert abs(one - other) <= 30


def test_shares_are_in_proportion_to_the_gains():
    better, worse = spent_on([Slope(2.0), Slope(1.0)], queries=400)
    assert 1.5 < better / worse < 2.7


def test_an_arm_that_has_nothing_more_to_ask_gets_no_more_queries():
    class Short(Slope):
        @property
        def spent(self):
            return self.made >= 4

    assert spent_on([Short(5.0), Slope(0.1)], queries=50) == [4, 46]


def test_no_queries_are_refused():
    with pytest.raises(BudgetError, match="given 0 metric queries; expected at least 1"):
        found_by(Oracle(QuadraticTask(dim=2)), 0)


def test_a_metric_that_cannot_judge_the_original_costs_two_queries():
    class Mute(Downhill):
        def costs(self, phi):
            return torch.full((len(phi),), math.nan)

    oracle = Oracle(Mute())
    with pytest.raises(MetricError, match="failed at phi = 0, the original model, 2 times of 2"):
        found_by(oracle, 50)
    assert oracle.ledger.used == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch": 0}, "batch is 0; expected at least 1"),
        ({"candidates": 9}, "candidates is 9; expected at least 10"),
        ({"descent": -1}, "descent is -1; expected at least 0"),
        ({"rows": 0}, "rows is 0; expected at least 1"),
        ({"start_steps": 0}, "start_steps is 0; expected at least 1"),
        ({"start_lr": 0.0}, "start_lr is 0.0; expected a positive rate"),
        ({"caution": -1.0}, "caution is -1.0; expected at least 0"),
        ({"radius": -0.1}, "smallest is 0.02 and radius -0.1; expected positive radii"),
        ({"least": 0.0}, "least is 0.0; expected a share above 0 and up to 1"),
        ({"caution": math.nan}, "caution is nan; expected at least 0"),
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused_with_the_setting_named(settings, message):
    with pytest.raises(ValueError, match=message):
        Recipe(**settings)


def test_a_start_that_has_seen_the_metrics_labels_has_to_be_ahead_by_more_than_luck():
    class OnePlain(Probe):
        plain_starts = 1

    class Doubtful(QuadraticTask):
        def probe(self):
            return OnePlain(self)

        def doubt_guess(self, phi, other):  # noqa: ARG002
            return 10.0

    for position, expected in ((0, True), (1, False)):
        task = Doubtful(dim=4)
        starts = torch.stack([0.1 * task.optimum, 0.1 * task.optimum])
        starts[position] = task.optimum
        found = found_by(Oracle(task), 3, starts=starts, recipe=replace(FAST, caution=1.0))
        assert torch.equal(found.outcome.phi, task.optimum) is expected
