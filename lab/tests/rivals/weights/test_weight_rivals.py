"""Every rival that moves the weights: calls that are counted, an original that is left alone, and a better network."""

from dataclasses import replace

import pytest
import torch
from sklearn.metrics import f1_score

from metricopt.metrics import Metric, aucpr, macro_f1
from metricopt_lab.rivals.weights import WEIGHT_RIVALS, Finetunings
from metricopt_lab.rivals.weights.finetunings import left_out
from metricopt_lab.rivals.weights.ranking import ranking_loss
from metricopt_lab.rivals.weights.state import outputs_of
from metricopt_lab.rivals.weights.training import Stopping
from metricopt_lab.rivals.weights.variants import USUAL

EPOCHS = 8


@pytest.fixture(scope="module")
def shared(make_problem):
    return Finetunings(make_problem(macro_f1()), epochs=EPOCHS)


@pytest.fixture(scope="module")
def ranked(make_problem):
    return Finetunings(make_problem(aucpr(), classes=2), epochs=EPOCHS)


def counting(problem):
    """The problem with its metric as a plain function, and the list of its calls, one a population's member."""
    asked = []

    def one(truth, labels):
        asked.append(len(truth))
        return f1_score(truth, labels, average="macro")

    return replace(problem, metric=Metric(one, on="labels", goal="max")), asked


@pytest.mark.parametrize("name", WEIGHT_RIVALS)
@pytest.mark.parametrize("calls", [15, 60, 400])
def test_no_rival_asks_more_often_than_it_may_and_each_tells_how_often_it_did(name, calls, shared):
    counted, asked = counting(shared.problem)
    mine = Finetunings(counted, epochs=1)
    found = WEIGHT_RIVALS[name].run(mine, calls=calls)
    if found is not None:
        assert found.calls == len(asked) <= calls


@pytest.mark.parametrize("name", WEIGHT_RIVALS)
def test_the_original_network_is_as_it_was_and_the_same_run_gives_the_same(name, shared):
    before = [tensor.clone() for tensor in shared.problem.net.state_dict().values()]
    one, again = (WEIGHT_RIVALS[name].run(Finetunings(shared.problem, epochs=2), calls=40) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(before, shared.problem.net.state_dict().values(), strict=True))
    if one is not None and again is not None:
        assert torch.equal(one.bias, again.bias)
        assert all(torch.equal(one.state[each], again.state[each]) for each in one.state)


@pytest.mark.parametrize("name", ["finetune_bias", "finetune_refit_bias", "wise_ft", "greedy_soup"])
def test_where_the_inputs_have_moved_finetuning_gains_what_biases_cannot(name, shared):
    found = WEIGHT_RIVALS[name].run(shared, calls=100)
    biased = WEIGHT_RIVALS["bias"].run(shared, calls=100)
    assert found is not None and biased is not None
    assert shared.test_cost(found.state, found.bias) < shared.test_cost(biased.state, biased.bias)


def test_the_time_of_shared_finetunings_is_told_by_each_that_chooses_among_them(shared):
    bank = shared.usual.took
    for name in ("finetune_bias", "wise_ft", "greedy_soup", "finetune_refit_bias"):
        found = WEIGHT_RIVALS[name].run(shared, calls=40)
        assert found is not None and found.took.cpu >= bank.cpu and found.took.seconds >= bank.seconds
    assert shared.usual.took is bank


def test_the_ranking_loss_is_for_metrics_about_scores_alone(shared, ranked):
    assert shared.ranking is None and WEIGHT_RIVALS["ranking_bias"].run(shared, calls=40) is None
    found = WEIGHT_RIVALS["ranking_bias"].run(ranked, calls=40)
    assert found is not None
    assert ranked.test_cost(found.state, found.bias) < ranked.problem.test_cost(ranked.problem.net)
    assert ranking_loss(ranked.problem.metric) is not None


def test_only_the_last_layer_moves_where_that_is_the_variant(shared):
    for variant, state in zip(shared.usual.variants, shared.usual.states, strict=True):
        moved = {name for name, tensor in state.items() if not torch.equal(tensor, shared.original[name])}
        assert moved == {"3.weight", "3.bias"} if variant.last_layer else {"0.weight", "3.weight"} < moved


def test_a_finetuning_is_stopped_where_the_rows_left_out_had_the_lowest_loss(shared):
    problem, rows = shared.problem, shared.held_out
    for one in shared.usual.found:
        outputs = outputs_of(problem.net, [one.state], rows.inputs)[0]
        assert float(problem.loss(outputs, rows.targets)) == pytest.approx(one.loss, rel=1e-4)
        assert 1 <= one.epoch <= EPOCHS


def test_of_two_rates_each_variant_takes_the_one_with_the_lower_loss(shared):
    group = [variant for variant in USUAL if not variant.last_layer and variant.mix]
    found = shared._trained(group, shared._learnt, shared.problem.loss, Stopping(shared.held_out))
    taken = dict(zip(shared.usual.variants, shared.usual.found, strict=True))
    for balanced in (False, True):
        losses = {variant: found[variant].loss for variant in group if variant.balanced == balanced}
        best = min(losses, key=lambda variant: losses[variant])
        assert len(losses) == 2 and taken[best].loss == losses[best]
    assert len(shared.usual.variants) == len(USUAL) / 2 == len({replace(v, rate=0.0) for v in shared.usual.variants})


def test_rows_left_out_are_three_in_ten_of_every_class_and_nothing_learns_from_them(shared):
    val = shared.problem.val
    learnt, out = left_out(val, seed=0)
    assert sorted([*learnt.tolist(), *out.tolist()]) == list(range(len(val)))
    for kind in range(3):
        among = int((val.targets == kind).sum())
        assert int((val.targets[out] == kind).sum()) == pytest.approx(0.3 * among, abs=1)
