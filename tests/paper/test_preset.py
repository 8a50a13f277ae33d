"""The paper's recipe as presets: what is printed, what deviates, and rates at which phi moves."""

import math
from dataclasses import fields, replace

import pytest
import torch
from torch import nn

import metricopt as mo
from metricopt.core.errors import BudgetError, FlatValueWarning, MetricOptWarning
from metricopt.core.seeding import stream
from metricopt.paper.preset import ENDS, follow, learn, paper_adapter, paper_stages, walked
from metricopt.paper.rates import MEMBERS, loss_rate
from metricopt.paper.settings import PAPER, PAPER_LETTER
from metricopt.paper.stages import LearntValue, rates_to_try, settled
from metricopt.task.oracle import Oracle
from metricopt.task.quadratic import QuadraticTask

ONCE = PAPER.once
"""The paper's stages without going through few tasks again, which takes seconds."""


def test_the_two_presets_differ_in_the_two_deviations_and_in_nothing_else():
    assert replace(PAPER, training=PAPER_LETTER.training) == PAPER_LETTER
    one, other = PAPER.training, PAPER_LETTER.training
    apart = {field.name for field in fields(one) if getattr(one, field.name) != getattr(other, field.name)}
    assert apart == {"norm", "standardise"}


@pytest.mark.parametrize(
    ("net", "dim", "steps", "queries"), [(nn.Linear(2, 1), 16, 50, 3), (nn.Conv2d(1, 1, 1), 128, 200, 10)]
)
def test_adapter_steps_and_queries_are_as_printed_for_the_kind_of_network(net, dim, steps, queries):
    assert [part.dim for part in paper_adapter(net).parts] == [dim]
    stages = paper_stages("paper", net)
    assert (stages.steps, stages.queries_a_task) == (steps, queries)


def test_the_steps_of_a_path_as_long_as_the_first_lead_as_far_as_phi_0_is_from_0():
    task, steps = QuadraticTask(dim=9), 40
    rate = loss_rate(task, steps=steps, start_std=2.0, seed=5)
    draw = stream(5, "loss rate")
    start = (2.0 * torch.randn(MEMBERS, 9, generator=draw)).requires_grad_()
    gradient = torch.autograd.grad(task.loss(start, next(task.batches(MEMBERS, draw))).sum(), start)[0]
    assert rate * float(gradient.norm(dim=1).median()) * steps == pytest.approx(2.0 * 3.0, rel=1e-4)


def test_a_rate_that_is_stated_stays_and_adam_needs_one():
    assert settled(QuadraticTask(), replace(PAPER, lr=0.5), seed=0).lr == 0.5
    with pytest.raises(BudgetError, match="lr is None with optimizer='adam'; rates are found for 'sgd': state one"):
        mo.Stages(optimizer="adam", lr=None)


def test_a_value_function_without_a_slope_leaves_phi_where_it_is():
    task = QuadraticTask(dim=3)
    rates = rates_to_try(task, lambda phi: 0 * phi[:, 0], PAPER, reaches=(0.1, 3.0), seed=0)
    assert rates == [0.1, 3.0]
    assert not mo.finetune(
        task, lambda phi: 0 * phi[:, 0], stages=replace(PAPER, lr=1.0, guided_lr=rates[-1])
    ).phi.any()


def test_the_path_with_the_best_answer_is_followed_and_five_queries_are_paid_for_it():
    oracle = Oracle(QuadraticTask(dim=3))
    known = learn(oracle, queries=65, seed=0, stages=ONCE)
    perfect = LearntValue(oracle.task.costs, known.health, known.trajectory, known.unseen, known.labelled)
    before = oracle.ledger.used
    found = follow(oracle, perfect, seed=0, stages=PAPER)
    assert oracle.ledger.used - before == ENDS
    assert float(oracle.task.costs(found.phi[None])) == pytest.approx(float(found.costs[1:].min()), abs=1e-6)
    assert found.costs[1:].min() < 0.3 * found.costs[0]


@pytest.mark.parametrize(
    ("best", "asked"),
    [
        (100.0, [1, 3.162, 10, 31.62]),  # on and on
        (0.001, [1, 3.162, 0.3162, 0.1]),  # back, and on there
        (4.0, [1, 3.162, 10, 5.623]),  # too far, and between
        (1.2, [1, 3.162, 0.3162, 1.778]),  # it was 1 all along
    ],
)
def test_paths_are_walked_to_the_better_side_by_factors_of_the_root_of_10_then_between(best, asked):
    found = walked(lambda reach: abs(math.log(reach / best)), math.inf, paths=4)
    assert list(found) == pytest.approx(asked, rel=1e-3)


def test_a_value_function_that_leads_astray_is_not_followed_farther_because_that_is_less_bad():
    found = walked(lambda reach: 1 / reach if reach > 0.5 else reach / 5, before=0.3, paths=4)
    assert list(found) == pytest.approx([1, 0.3162, 0.1, 0.0316], rel=1e-2)


def test_a_path_whose_end_has_no_answer_is_worse_than_any_other(monkeypatch):
    oracle = Oracle(QuadraticTask(dim=3))
    known = learn(oracle, queries=65, seed=0, stages=ONCE)
    perfect = LearntValue(oracle.task.costs, known.health, known.trajectory, known.unseen, known.labelled)
    answers = iter([0.4, math.nan, 0.3, 0.2, 0.5])  # of the original, then of reaches 1, .32, .1 and .03
    monkeypatch.setattr(oracle, "observe", lambda *_, **__: torch.tensor([next(answers)]))
    found = follow(oracle, perfect, seed=0, stages=PAPER)
    assert (found.reach, found.costs.tolist()[1]) == (pytest.approx(0.1), math.inf)


@pytest.mark.usefixtures("quick_paper")
@pytest.mark.filterwarnings("ignore::metricopt.core.errors.FlatValueWarning")
@pytest.mark.parametrize("preset", ["paper", "paper-letter"])
def test_a_preset_has_the_paper_s_adapter_alone_and_its_text_warns(preset, recwarn):
    x = torch.randn(300, 4, generator=stream(0))
    y = (x[:, 0] > 0.3).long()
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    result = mo.optimize(
        net,
        metric="accuracy",
        train=(x[:150], y[:150]),
        val=(x[150:], y[150:]),
        queries=17,
        preset=preset,
        learn_from_val=False,
    )
    said = [
        w for w in recwarn if issubclass(w.category, MetricOptWarning) and not issubclass(w.category, FlatValueWarning)
    ]
    assert [("to the letter" in str(warning.message)) for warning in said if "letter" in str(warning.message)] == (
        [True] if preset == "paper-letter" else []
    )
    assert result.model.dim == 16
    assert result.ledger.used == 17
