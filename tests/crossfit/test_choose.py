"""What the metric is asked about: rows that no network and no bias has seen, within the queries granted."""

import math
from dataclasses import replace

import pytest
import torch
from tests.crossfit.problems import SMALL, draw, learner, task
from torch import nn

from metricopt.crossfit.asking import Asking
from metricopt.crossfit.biases import BiasSearch
from metricopt.crossfit.choose import Mixtures, choose
from metricopt.crossfit.fit import Plan, fit
from metricopt.crossfit.honest import HonestBias
from metricopt.crossfit.soft_metrics import soft_biases
from metricopt.metrics import Metric
from metricopt.run.ledger import QueryLedger
from metricopt.task.oracle import Oracle
from metricopt.task.out_of_fold import set_weights

KINDS = len(SMALL.kinds)


def prepared(metric="accuracy"):
    own = learner(metric)
    fitted = fit(own, Plan(3e-2, 3e-2, 12, 3, 0.0), seed=0, tick=lambda _: None)
    assert len(fitted.states) == KINDS
    states = [[{n: t[fold] for n, t in state.items()} for state in fitted.states] for fold in (0, 1, 2, -1)]
    own.task.take_folds(fitted.fold_of, states[:-1])
    set_weights(own.model, states[-1])
    return own.task, fitted


def test_every_row_is_predicted_by_the_network_that_has_not_seen_it():
    own, fitted = prepared()
    phi = torch.zeros(1, own.dim)
    phi[0, 1] = 1.0
    found = own.search_outputs(phi)[0]
    net = own.model.net
    for fold in range(3):
        rows = fitted.fold_of == fold
        state = {name: tensor[fold] for name, tensor in fitted.states[1].items()}
        expected = torch.func.functional_call(net, state, (own.search.inputs[rows],))
        torch.testing.assert_close(found[rows], expected)


def test_at_zero_it_is_the_original_for_every_row():
    own, _ = prepared()
    assert torch.equal(own.search_outputs(torch.zeros(1, own.dim))[0], own.model.net(own.search.inputs))


@pytest.mark.parametrize("queries", [1, 5, 12, 40, 90])
def test_it_never_asks_more_than_it_may_and_finds_the_turned_classes(queries):
    own, _ = prepared()
    oracle = Oracle(own, QueryLedger(budget=queries))
    original = float(own.costs(torch.zeros(1, own.dim))[0])
    chosen = choose(oracle, SMALL, kinds=KINDS, original=original, queries=queries)
    assert oracle.ledger.used <= queries
    assert chosen.cost < original - 0.1
    assert [used for used, _ in chosen.outcome.incumbents] == sorted(used for used, _ in chosen.outcome.incumbents)


def test_its_cost_is_that_of_the_predictions_shown():
    own, _ = prepared("macro_f1")
    oracle = Oracle(own, QueryLedger(budget=60))
    chosen = choose(oracle, SMALL, kinds=KINDS, original=1.0, queries=60)
    value = own.metric.value(chosen.shown, own.search.targets, None)
    assert own.metric.cost(value) == pytest.approx(chosen.cost)


def test_biases_are_left_alone_where_the_settings_say_so():
    own, _ = prepared()
    oracle = Oracle(own, QueryLedger(budget=40))
    chosen = choose(oracle, replace(SMALL, tuned=0), kinds=KINDS, original=1.0, queries=40)
    assert not any("bias" in query.stage for query in oracle.ledger.queries)
    assert not chosen.outcome.phi[own.shifts].any()


def test_a_metric_that_fails_now_and_then_is_never_the_best():
    def fails(y_true, labels):
        if (labels == y_true).mean() > 0.6:
            raise ValueError("too good to be true")
        return float((labels == y_true).mean())

    own, _ = prepared(Metric(fails, on="labels", goal="max"))
    oracle = Oracle(own, QueryLedger(budget=40))
    with pytest.warns(UserWarning, match="too good to be true"):
        chosen = choose(oracle, SMALL, kinds=KINDS, original=0.9, queries=40)
    assert math.isfinite(chosen.cost) and chosen.cost >= 0.4


def test_a_ranking_by_single_logits_gets_no_bias():
    own, _ = prepared(Metric(lambda _, z: float((z[:, 0].argsort() == 0).argmax()) / 1000, on="logits", goal="max"))
    asking = Asking(Oracle(own, QueryLedger(budget=50)), own, queries=50)
    cost = float(own.costs(torch.zeros(1, own.dim))[0])
    found = HonestBias(asking, torch.zeros(own.dim), own.fold_of % 2, cost).search(calls=50)
    assert not found.bias.any() and asking.left == 49  # one push tells


def test_each_half_is_shifted_by_the_bias_that_the_other_half_chose():
    own, _ = prepared()
    asking = Asking(Oracle(own, QueryLedger(budget=5)), own, queries=5)
    half_of = own.fold_of % 2
    honest = HonestBias(asking, torch.zeros(own.dim), half_of, 0.5)
    halves = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, -2.0]])
    torch.testing.assert_close(honest.shown(halves) - honest.outputs, halves[half_of], rtol=0, atol=1e-5)


def test_a_coordinate_search_finds_the_bottom_of_a_bowl():
    bottom = torch.tensor([0.8, -0.4, 0.1])
    asked = []

    def ask(biases):
        asked.extend(biases)
        return (biases - bottom).square().sum(1).double()

    found = BiasSearch(ask, torch.zeros(9, 3), False, torch.ones(3))(torch.zeros(3), calls=80)
    assert float((found - bottom).abs().max()) < 0.1 and len(asked) <= 80


def test_thresholds_are_found_on_a_noisy_curve():
    logits = torch.linspace(-4, 4, 500)
    noise = draw(0)

    def ask(biases):
        shares = (logits + biases > 0).double().mean(1)
        return (shares - 0.3).square() + 0.002 * torch.randn(len(biases), generator=noise).double()

    (found,) = BiasSearch(ask, logits, True, torch.ones(1))(torch.zeros(1), calls=40).tolist()
    assert float((logits + found > 0).double().mean()) == pytest.approx(0.3, abs=0.04)


def test_soft_biases_raise_what_they_are_soft_forms_of():
    draws = draw(0)
    targets = (torch.rand(2000, generator=draws) > 0.9).long() + (torch.rand(2000, generator=draws) > 0.9).long()
    logits = torch.randn(2000, 3, generator=draws) + 1.5 * nn.functional.one_hot(targets, 3) + torch.tensor([3.0, 0, 0])
    biases = soft_biases(logits, targets)

    def recalls(bias):
        said = (logits + bias).argmax(1)
        return torch.stack([(said[targets == c] == c).double().mean() for c in range(3)])

    assert max(float(recalls(bias).min()) for bias in biases) > float(recalls(torch.zeros(3)).min()) + 0.3


def test_without_finetuned_kinds_the_original_with_biases_remains():
    own = task()
    own.take_folds(torch.arange(300) % 2, [[], []])
    oracle = Oracle(own, QueryLedger(budget=30))
    chosen = choose(oracle, SMALL, kinds=0, original=0.9, queries=30)
    assert not chosen.outcome.phi[:KINDS].any()


def test_the_soup_takes_each_kind_that_makes_the_mean_no_worse():
    own, _ = prepared()
    alone = torch.tensor([0.30, 0.20, 0.25])
    told = []

    def costs(phi, *, stage, shown):
        told.append(phi[0, :3])
        weights = phi[0, :3]
        better = 0.1 * (weights[0] > 0) * (weights[1] > 0)  # the first two together are better than either
        return (weights @ alone / weights.sum() - better).double()[None]

    asking = Asking(Oracle(own, QueryLedger(budget=40)), own, queries=40)
    asking.oracle.observe = costs
    mixtures = Mixtures(asking, 1.0)
    mixtures.ask_all(SMALL, 3)
    expected = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0.5, 0.5], [0.5, 0.5, 0], [0.25, 0.25, 0], [0.375, 0.375, 0]]
    torch.testing.assert_close(torch.stack(told), torch.tensor(expected, dtype=torch.float32))
    assert mixtures.ranked()[0] == 5
