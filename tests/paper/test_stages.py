import dataclasses

import pytest
import torch

from metricopt.core.errors import BudgetError, DataError, FlatValueWarning, ObservationError, UnknownNameError
from metricopt.paper.settings import PAPER, Stages
from metricopt.paper.stages import finetune, learn_value_function
from metricopt.paper.training import Training
from metricopt.run.ledger import QueryLedger
from metricopt.task.base import Task
from metricopt.task.oracle import Oracle
from metricopt.task.quadratic import QuadraticTask

QUICK = Training(steps=150, members=3)
# Paths of later rounds follow the value function away from the loss optimum, where it would otherwise be a guess.
LEARNING = Stages(rounds=3, combine="replace", start_std=0.5, training=QUICK)
TINY = Stages(rounds=1, steps=10, observations=2, training=Training(steps=5, members=1))


@pytest.fixture(scope="module", params=[0, 1])
def solved(request):
    task = QuadraticTask(dim=4, seed=request.param)
    oracle = Oracle(task)
    return oracle, learn_value_function(oracle, queries=150, seed=request.param, stages=LEARNING)


@pytest.mark.parametrize(("optimizer", "lr"), [("sgd", 0.1), ("adam", 0.05)])
@pytest.mark.parametrize("combine", ["add", "replace"])
@pytest.mark.parametrize("estimator", ["es", "exact"])
def test_the_quadratic_task_is_solved_in_two_stages(solved, optimizer, lr, combine, estimator):
    oracle, learnt = solved
    task = oracle.task
    stages = Stages(optimizer=optimizer, lr=lr, combine=combine, estimator=estimator)
    used = oracle.ledger.used
    phi = finetune(task, learnt.value, stages=stages).phi
    # It starts at a distance of 1; the loss alone ends at 0.41 and 0.49. An added direction shares the way with it.
    distance, of_the_loss = (float((end - task.optimum).norm()) for end in (phi, task.loss_optimum))
    assert distance < (0.25 if combine == "replace" else 0.35)
    assert distance < 0.7 * of_the_loss
    assert oracle.ledger.used == used


def test_a_value_function_comes_with_its_health_on_paths_it_never_saw(solved):
    _, learnt = solved
    assert learnt.health.rank_correlation > 0.9 and not learnt.health.flat
    assert learnt.labelled.phi.shape == (3 * 8, 50, 4)  # of 10 paths a round, 2 are held out
    assert learnt.unseen.phi.shape == (3 * 2, 50, 4)
    seen = {tuple(row) for row in learnt.labelled.phi.flatten(0, 1).tolist()}
    assert not seen & {tuple(row) for row in learnt.unseen.phi.flatten(0, 1).tolist()}


@pytest.mark.parametrize(
    ("stages", "queries", "made"), [(TINY, 9, 8), (Stages(rounds=2, steps=10, observations=3, training=QUICK), 29, 24)]
)
def test_as_many_whole_trajectories_are_observed_as_the_queries_allow(stages, queries, made):
    oracle = Oracle(QuadraticTask(dim=2), QueryLedger(budget=queries))
    learn_value_function(oracle, queries=queries, stages=stages)
    assert oracle.ledger.used == len(oracle.ledger.queries) == made
    assert {query.stage for query in oracle.ledger.queries} == {"trajectories"}


def test_the_same_seed_gives_the_same_bits_and_another_does_not():
    def both(seed):
        task = QuadraticTask(dim=3)
        learnt = learn_value_function(Oracle(task), queries=40, seed=seed, stages=TINY)
        return learnt.trajectory.phi, finetune(task, learnt.value, seed=seed, stages=TINY).phi

    first, again, other = (both(seed) for seed in (5, 5, 6))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_finetuning_goes_on_from_the_start_it_is_given_and_leaves_it_alone(solved):
    oracle, learnt = solved
    task = oracle.task
    start = task.optimum.clone()
    outcome = finetune(task, learnt.value, start=start, stages=Stages(combine="replace", lr=0.01))
    assert torch.equal(start, task.optimum)
    assert torch.equal(outcome.incumbents[0][1], start)
    assert float((outcome.phi - start).norm()) < 0.25


def test_a_start_of_another_size_is_refused():
    with pytest.raises(DataError, match=r"start has shape \(1, 4\); expected \(4,\), one phi of this task"):
        finetune(QuadraticTask(dim=4), lambda points: points[:, 0], start=torch.zeros(1, 4))


def test_a_flat_value_function_is_said_loudly_with_the_remedy():
    class Indifferent(Task):
        """A metric that answers the same to everything."""

        def __init__(self):
            self.inner = QuadraticTask(dim=3)
            self.dim = 3

        def batches(self, population, generator):
            return self.inner.batches(population, generator)

        def loss(self, phi, batch):
            return self.inner.loss(phi, batch)

        def costs(self, phi):
            return torch.full((len(phi),), 0.5)

    with pytest.warns(FlatValueWarning, match=r"the value function is flat.*query the metric more often"):
        learn_value_function(Oracle(Indifferent()), queries=40, stages=TINY)


@pytest.mark.parametrize(("queries", "tasks"), [(-1, -1), (0, 0), (11, 3)])
def test_too_few_queries_for_the_plan_are_refused_before_any_is_made(queries, tasks):
    oracle = Oracle(QuadraticTask(dim=3))
    with pytest.raises(BudgetError) as caught:
        learn_value_function(oracle, queries=queries, stages=PAPER)
    assert str(caught.value) == (
        f"{queries} metric queries give {tasks} trajectories of 3 observations in each of 1 rounds; expected at least "
        f"4: grant 12 queries, or set fewer observations or rounds"
    )
    assert oracle.ledger.used == 0


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"optimizer": "adamw"}, UnknownNameError, "optimizer is 'adamw'; expected 'sgd' or 'adam': did you mean"),
        ({"combine": "sum"}, UnknownNameError, "combine is 'sum'; expected 'add' or 'replace'"),
        ({"estimator": "exakt"}, UnknownNameError, "estimator is 'exakt'.*did you mean 'exact'"),
        ({"observations": 1}, ObservationError, "1 metric observations in 50 steps; expected between 2 and 50"),
        ({"observations": 0}, ObservationError, "0 metric observations in 50 steps"),
        ({"steps": 4}, ObservationError, "5 metric observations in 4 steps; expected between 2 and 4"),
        ({"rounds": 0}, BudgetError, "rounds is 0; expected at least 1"),
        ({"held_out": 1.0}, ObservationError, "held_out is 1.0; expected a share"),
    ],
)
def test_settings_that_make_no_sense_are_refused_before_anything_is_spent(settings, error, message):
    with pytest.raises(error, match=message):
        Stages(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scheme": "reptil"}, "scheme is 'reptil'; expected 'offline' or 'reptile': did you mean 'reptile'?"),
        ({"norm": "batchnorm"}, "norm is 'batchnorm'; expected 'batch', 'layer' or 'none': did you mean 'batch'?"),
        ({"norm": None}, "norm is None; expected 'batch', 'layer' or 'none': did you mean 'none'?"),
    ],
)
def test_misspelt_settings_of_the_training_are_answered_with_the_right_ones(settings, message):
    with pytest.raises(UnknownNameError) as caught:
        Training(**settings)
    assert str(caught.value) == message


def test_a_training_without_members_is_refused():
    with pytest.raises(ValueError, match="members is 0; expected at least 1"):
        Training(members=0)


@pytest.mark.parametrize("training", [TINY.training, Training(scheme="reptile", members=1, meta_updates=7)])
def test_learning_a_value_function_gives_signs_of_life_up_to_its_last_update(training):
    ledger, heard = QueryLedger(), []
    ledger.pulse.tell = lambda _, fields: heard.append(dict(fields))
    ledger.pulse._clock = iter(range(10**6)).__next__  # a second goes by between any two
    learnt = learn_value_function(
        Oracle(QuadraticTask(dim=3), ledger), queries=10, stages=dataclasses.replace(TINY, training=training)
    )
    mine = [(fields["done"], fields["total"]) for fields in heard if fields["phase"] == "value function"]
    updates = training.updates(len(learnt.labelled.phi))
    assert mine == [(done, updates) for done in range(updates + 1)]
