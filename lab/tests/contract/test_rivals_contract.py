"""Every registered rival keeps to its budget, repeats itself, and hands over what it would have returned earlier."""

import math
import warnings

import numpy as np
import pytest
import torch

from metricopt.adapters import OutputAffine, adapt
from metricopt.core.errors import MetricFailureWarning
from metricopt.core.seeding import stream
from metricopt.data.dataset import Examples
from metricopt.losses import cross_entropy
from metricopt.metrics import Metric
from metricopt.run.ledger import QueryLedger
from metricopt.task.base import Task
from metricopt.task.oracle import Oracle
from metricopt.task.supervised import SupervisedTask
from metricopt_lab.problems import QuadraticTask
from metricopt_lab.rivals import BASELINES

UNLABELLED = [name for name, one in BASELINES.items() if not one.needs_labels]
BLIND = {"pretrained", "loss_only", "label_finetune"}  # spend no query and return what they end with


def budget(name, queries, *, least=16):
    """So many queries, or a few, of a rival that fits a model for each."""
    return min(queries, least) if BASELINES[name].thinks else queries


class Watched(Task):
    """A quadratic task that notes each vector its metric is asked about; every `failing`-th answer is NaN."""

    def __init__(self, *, failing=0):
        self.inner = QuadraticTask(dim=6)
        self.dim = 6
        self.failing, self.asked = failing, []

    def batches(self, population, generator):
        return self.inner.batches(population, generator)

    def loss(self, phi, batch):
        return self.inner.loss(phi, batch)

    def costs(self, phi):
        costs = self.inner.costs(phi)
        for i, vector in enumerate(phi):
            self.asked.append(vector.clone())
            if self.failing and len(self.asked) % self.failing == 0:
                costs[i] = math.nan
        return costs

    def probe(self):
        return self.inner.probe()


def labelled(queries, metric):
    """Three classes of points, seen by a network whose outputs are mis-scaled and mis-shifted."""
    inputs = torch.randn(400, 3, generator=stream(0, "inputs"))
    targets = inputs.argmax(1)
    net = torch.nn.Linear(3, 3)
    net.weight.data.copy_(torch.diag(torch.tensor([1.0, 0.4, 2.0])))
    net.bias.data.copy_(torch.tensor([0.5, -0.5, 0.0]))
    parts = [Examples(inputs[i::2], targets[i::2]) for i in (0, 1)]
    task = SupervisedTask(
        adapt(net, OutputAffine()),
        loss=cross_entropy,
        metric=metric,
        train=parts[0],
        search=parts[1],
        batch_size=50,
        labels_visible=True,
    )
    return Oracle(task, QueryLedger(budget=queries))


def wrong_share(truth, labels):
    return float((truth != labels).mean())


def test_all_rivals_are_here():
    assert set(BASELINES) == {
        "pretrained", "loss_only", "loss_dense", "post_shift", "random_search", "cma_es", "snes", "spsa",
        "post_shift_then_cma", "label_finetune", "label_finetune_then_post_shift", "label_finetune_then_cma",
        "gp_log_ei", "gp_log_ei_told", "sphere_log_ei", "turbo", "optuna_tpe", "optuna_gp", "cma_es_lr_adapt",
        "cr_fm_nes",
    }  # fmt: skip


@pytest.mark.parametrize("name", BASELINES)
def test_a_rival_says_what_it_is(name):
    assert BASELINES[name].name == name
    assert BASELINES[name].about.endswith(".")
    assert BASELINES[name].needs_labels == name.startswith("label")


@pytest.mark.parametrize("queries", [0, 1, 2, 7, 60])
@pytest.mark.parametrize("name", UNLABELLED)
def test_no_rival_exceeds_its_budget_and_the_ledger_counts_what_the_metric_saw(name, queries):
    task, queries = Watched(), budget(name, queries)
    oracle = Oracle(task, QueryLedger(budget=queries))  # one more query would be an error
    outcome = BASELINES[name].run(oracle, queries=queries, seed=0)
    assert len(task.asked) == oracle.ledger.used == len(oracle.ledger.queries) <= queries
    assert outcome.phi.shape == (6,)
    assert outcome.phi.isfinite().all()
    if name in BLIND:
        assert not task.asked
    elif queries:
        assert not task.asked[0].any()  # phi = 0 is asked about first


@pytest.mark.parametrize("name", UNLABELLED)
def test_each_incumbent_is_the_best_vector_asked_about_until_then(name):
    task, queries = Watched(), budget(name, 60)
    oracle = Oracle(task, QueryLedger(budget=queries))
    outcome = BASELINES[name].run(oracle, queries=queries, seed=0)
    used = [count for count, _ in outcome.incumbents]
    assert used == sorted(set(used))
    assert torch.equal(outcome.at(queries), outcome.phi)
    assert outcome.at(0).shape == (6,)
    if name not in BLIND:
        for count in (1, 5, queries // 2, queries):
            seen = torch.stack(task.asked[:count])
            assert torch.equal(outcome.at(count), seen[task.inner.costs(seen).argmin()])


@pytest.mark.parametrize("name", UNLABELLED)
def test_a_rival_ends_no_worse_than_it_starts_and_all_but_the_first_better(name):
    task, queries = Watched(), budget(name, 60, least=60 if name == "turbo" else 31)
    oracle = Oracle(task, QueryLedger(budget=queries))
    outcome = BASELINES[name].run(oracle, queries=queries, seed=0)
    start, end = task.inner.costs(torch.stack([torch.zeros(6), outcome.phi]))
    assert end == start if name == "pretrained" else end < start


@pytest.mark.parametrize("name", UNLABELLED)
def test_the_seed_decides_all_and_global_random_states_are_untouched(name):
    before, numpy_before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    queries = budget(name, 40)
    oracles = [Oracle(Watched(), QueryLedger(budget=queries)) for _ in range(2)]
    first, again = (BASELINES[name].run(oracle, queries=queries, seed=3) for oracle in oracles)
    assert torch.equal(first.phi, again.phi)
    assert [count for count, _ in first.incumbents] == [count for count, _ in again.incumbents]
    assert torch.equal(before, torch.random.get_rng_state())
    assert (numpy_before == np.random.get_state()[1]).all()  # noqa: NPY002


@pytest.mark.parametrize("failing", [1, 2, 3])
@pytest.mark.parametrize("name", UNLABELLED)
def test_failed_queries_are_never_returned_and_break_nothing(name, failing):
    task, queries = Watched(failing=failing), budget(name, 40)
    oracle = Oracle(task, QueryLedger(budget=queries))
    outcome = BASELINES[name].run(oracle, queries=queries, seed=0)
    assert outcome.phi.isfinite().all()
    if name in BLIND:
        return
    answered = [vector for i, vector in enumerate(task.asked, 1) if i % failing]
    assert any(torch.equal(outcome.phi, vector) for vector in [torch.zeros(6), *answered])
    if failing == 1:
        assert not outcome.phi.any()


@pytest.mark.parametrize("name", BASELINES)
def test_every_rival_runs_on_a_model_with_visible_labels(name):
    metric = Metric(wrong_share, on="labels", goal="min")
    queries = budget(name, 100)
    oracle = labelled(queries, metric)
    outcome = BASELINES[name].run(oracle, queries=queries, seed=0)
    again = BASELINES[name].run(labelled(queries, metric), queries=queries, seed=0)
    start, end = oracle.task.costs(torch.stack([torch.zeros(6), outcome.phi]))
    assert oracle.ledger.used <= queries
    assert torch.equal(outcome.phi, again.phi)
    assert end == start if name == "pretrained" else end < start
    assert all(outcome.at(used).isfinite().all() for used in (0, 30, 100))


@pytest.mark.parametrize("name", [name for name, one in BASELINES.items() if one.needs_labels])
def test_a_metric_that_always_fails_leaves_the_finetuned_vector(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MetricFailureWarning)
        oracle = labelled(10, Metric(lambda *_: math.nan, on="labels", goal="min", name="broken"))
        outcome = BASELINES[name].run(oracle, queries=10, seed=0)
    blind = BASELINES["label_finetune"].run(oracle, queries=0, seed=0)
    assert torch.equal(outcome.phi, blind.phi)
