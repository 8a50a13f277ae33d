from functools import partial

import pytest
import torch

from metricopt.adapters import FiLM, OutputAffine, adapt
from metricopt.core.errors import BudgetError, MetricFailureWarning, MetricOptError
from metricopt.core.seeding import stream
from metricopt.data.dataset import Examples
from metricopt.losses import cross_entropy
from metricopt.metrics import Metric, mcr
from metricopt.paper.collect import Spacing, walk
from metricopt.paper.guided import MetricGuided
from metricopt.paper.settings import Stages
from metricopt.paper.stages import learn_value_function
from metricopt.paper.workers import TASKS_A_GROUP, collect_in_groups
from metricopt.run.ledger import QueryLedger
from metricopt.task.oracle import Oracle
from metricopt.task.quadratic import QuadraticTask
from metricopt.task.supervised import SupervisedTask
from metricopt_lab.networks import TabularMLP

TASKS = 2 * TASKS_A_GROUP + 5


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


DATA = Examples(numbers(80, 6), torch.arange(80) % 2)


def supervised(metric=None, budget=None):
    torch.manual_seed(0)
    model = adapt(TabularMLP(6), FiLM(dim=8) + OutputAffine(), example=DATA.inputs[:2])
    task = SupervisedTask(model, loss=cross_entropy, metric=metric or mcr(), train=DATA, search=DATA, batch_size=16)
    return Oracle(task, QueryLedger(budget=budget))


def sgd(group):
    return partial(torch.optim.SGD, lr=0.1)


def guided(group):
    def bowl(points):
        return points.square().sum(1)

    return lambda parameters: MetricGuided(torch.optim.SGD(parameters, lr=0.1), bowl, seed=group)


def paths(oracle, workers, optimizer=sgd, spacing: Spacing = "even"):
    start, options = numbers(TASKS, oracle.dim, seed=1), {"steps": 12, "observations": 3, "seed": 0}
    return collect_in_groups(oracle, optimizer=optimizer, start=start, workers=workers, spacing=spacing, **options)


@pytest.mark.parametrize(("optimizer", "spacing"), [(sgd, "even"), (guided, "even"), (guided, "random")])
@pytest.mark.parametrize("workers", [2, 3, 7])
def test_the_number_of_workers_changes_no_bit_and_no_query(workers, optimizer, spacing):
    alone, together = supervised(), supervised()
    a, b = paths(alone, 1, optimizer, spacing), paths(together, workers, optimizer, spacing)
    for one, other in zip(vars(a).values(), vars(b).values(), strict=True):
        assert torch.equal(torch.as_tensor(one), torch.as_tensor(other))
    assert alone.ledger.queries == together.ledger.queries
    assert together.ledger.used == len(together.ledger.queries) == TASKS * 3


def test_each_group_is_a_population_with_random_numbers_of_its_own():
    task = QuadraticTask(dim=4)
    found = paths(Oracle(task), 1)
    torch.testing.assert_close(found.costs, task.costs(found.observed_phi.flatten(0, 1)).double().reshape(TASKS, 3))
    start = numbers(TASKS, 4, seed=1)
    assert torch.equal(found.phi[:, 0], start)
    phi, loss = walk(
        task, start[TASKS_A_GROUP : 2 * TASKS_A_GROUP], 12, optimizer=sgd(1), generator=stream(0, "group", 1)
    )
    assert torch.equal(found.phi[TASKS_A_GROUP : 2 * TASKS_A_GROUP], phi)
    assert torch.equal(found.loss[TASKS_A_GROUP : 2 * TASKS_A_GROUP], loss)


def test_a_costly_metric_is_asked_by_this_process_alone():
    asked = []

    def share(targets, labels):
        asked.append(len(targets))
        return float((targets != labels).mean())

    paths(supervised(Metric(share, on="labels", goal="min", costly=True)), 2)
    assert len(asked) == TASKS * 3


def test_a_budget_that_is_too_small_is_said_before_any_work():
    with pytest.raises(BudgetError, match="asks for 111 metric queries, but 100 of 100 are left"):
        paths(supervised(budget=100), 2)


def test_failed_queries_of_other_processes_are_said_here():
    def never(targets, labels):
        raise ZeroDivisionError("no")

    with pytest.warns(MetricFailureWarning, match="ZeroDivisionError"):
        found = paths(supervised(Metric(never, on="labels", goal="min")), 2)
    assert found.costs.isnan().all()


def test_an_error_in_a_worker_reaches_the_caller():
    def broken(group):
        if group == 1:
            raise RuntimeError("out of luck")
        return sgd(group)

    with pytest.raises(MetricOptError, match="failed in group 1 of the tasks: RuntimeError: out of luck"):
        paths(supervised(), 2, broken)


def test_a_value_function_learnt_by_two_processes_is_that_of_one():
    found = [
        learn_value_function(
            Oracle(QuadraticTask(dim=4)), queries=400, stages=Stages(workers=workers, rounds=2, steps=20)
        )
        for workers in (1, 2)
    ]
    points = numbers(5, 4)
    assert torch.equal(found[0].value(points), found[1].value(points))
    assert torch.equal(found[0].trajectory.phi, found[1].trajectory.phi)
