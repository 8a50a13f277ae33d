"""What `optimize` promises whatever the problem: its budget, its repeatability, and an unharmed original."""

import copy
import importlib
import warnings

import pytest
import torch
from torch import nn

import metricopt as mo
from metricopt.core.errors import FlatValueWarning, MergeWarning, MetricError
from metricopt.core.records import Outcome
from metricopt.losses import cross_entropy

DRAW = torch.Generator().manual_seed(0)
X = torch.randn(900, 4, generator=DRAW)
Y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * torch.randn(900, generator=DRAW) > 1).long()
NOISE = torch.randint(2, (900,), generator=DRAW)
FAST = mo.Recipe(start_steps=30, candidates=60)


def trained(*layers, targets=Y):
    """A net pre-trained for a few steps, so that BatchNorm has statistics, with its first layer frozen by the user."""
    torch.manual_seed(0)
    net = nn.Sequential(*(layer() for layer in layers))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(40):
        optimizer.zero_grad()
        cross_entropy(net(X[:300]), targets[:300]).backward()
        optimizer.step()
    net[0].weight.requires_grad_(False)
    net[-1].eval()
    return net


def mlp(norm=lambda: nn.BatchNorm1d(8)):
    return trained(lambda: nn.Linear(4, 8), norm, nn.ReLU, lambda: nn.Dropout(0.2), lambda: nn.Linear(8, 1))


class Counted:
    """F1 by plain counts that knows how often it was asked about how many rows."""

    def __init__(self):
        self.rows = []

    def __call__(self, y_true, labels):
        self.rows.append(len(y_true))
        return 2 * int((y_true * labels).sum()) / max(int(y_true.sum() + labels.sum()), 1)


def optimised(net=None, *, metric="f1", queries=40, targets=Y, **settings):
    return mo.optimize(
        mlp() if net is None else net,
        loss=cross_entropy,
        metric=metric,
        train=(X[:300], targets[:300]),
        val=(X[300:], targets[300:]),
        queries=queries,
        recipe=settings.pop("recipe", None if settings.get("preset") == "paper" else FAST),
        **settings,
    )


def facts(result):
    """Everything about a result but the time it took."""
    numbers = {key: value for key, value in result.to_dict().items() if key != "seconds"}
    return numbers, [query.cost for query in result.ledger.queries], result.proposal.tolist(), result.model.phi.tolist()


@pytest.fixture(scope="module")
def net():
    return mlp()


@pytest.fixture(scope="module")
def improved(net):
    return optimised(net)


@pytest.mark.usefixtures("quick_paper")
@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.filterwarnings(f"ignore::{FlatValueWarning.__module__}.{FlatValueWarning.__name__}")
def test_the_same_seed_gives_the_same_result_bit_for_bit_and_another_does_not(preset):
    first, again, other = (facts(optimised(preset=preset, seed=seed, queries=30)) for seed in (3, 3, 4))
    assert first == again
    assert first[2] != other[2]


def test_the_random_state_of_the_process_neither_matters_nor_changes(improved):
    torch.manual_seed(99)
    before = torch.random.get_rng_state()
    fresh = mlp()
    torch.random.set_rng_state(before)
    assert facts(optimised(fresh)) == facts(improved)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.usefixtures("quick_paper")
@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.filterwarnings(f"ignore::{FlatValueWarning.__module__}.{FlatValueWarning.__name__}")
def test_weights_buffers_modes_and_gradient_flags_of_the_net_stay_as_they_were(preset):
    net = mlp()
    net.train()
    net[1].eval()
    before = copy.deepcopy(net)
    optimised(net, preset=preset, queries=20)
    assert net.state_dict().keys() == before.state_dict().keys()
    assert all(
        torch.equal(now, then) for now, then in zip(*(n.state_dict().values() for n in (net, before)), strict=True)
    )
    assert [module.training for module in net.modules()] == [module.training for module in before.modules()]
    flags = [[parameter.requires_grad for parameter in n.parameters()] for n in (net, before)]
    assert flags[0] == flags[1] and False in flags[0] and True in flags[0]
    assert not any(module._forward_hooks for module in net.modules())


def test_an_accepted_result_is_better_on_rows_nobody_has_seen(net, improved):
    assert improved.accepted
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(4000, 4, generator=draw)
    y = (x[:, 0] + x[:, 1] * x[:, 2] + 0.5 * torch.randn(4000, generator=draw) > 1).long()
    test = improved.evaluate((x, y), resamples=50)
    assert test.after > test.before + 0.02
    assert test.before == pytest.approx(mo.metrics.as_metric("f1").value(net.eval()(x), y))


def test_the_merged_model_computes_the_same_and_is_a_plain_module_of_the_same_class(net, improved):
    merged = improved.merge()
    assert type(merged) is type(net) and [type(a) for a in merged.modules()] == [type(a) for a in net.modules()]
    assert merged.state_dict().keys() == net.state_dict().keys()
    with torch.no_grad():
        torch.testing.assert_close(merged(X), improved.model(X), atol=1e-5, rtol=1e-4)
        assert not torch.allclose(merged(X), net.eval()(X), atol=1e-2)


@pytest.mark.parametrize("norm", [nn.Identity, lambda: nn.BatchNorm1d(8), lambda: nn.LayerNorm(8)])
def test_what_is_not_accepted_leaves_the_original_bit_for_bit(norm):
    net = mlp(norm)
    result = optimised(
        net, targets=NOISE, metric="accuracy", queries=15, recipe=mo.Recipe(start_steps=5, candidates=60, caution=0.0)
    )
    assert not result.accepted and "the original model is returned" in str(result)
    assert result.proposal.any() and not result.model.phi.any()
    with torch.no_grad():
        assert torch.equal(result.model(X), net.eval()(X))
        torch.testing.assert_close(result.merge()(X), net(X))
    numbers = result.to_dict()
    assert numbers["after"] == numbers["before"] and not numbers["accepted"]


@pytest.mark.filterwarnings("ignore:nothing can be found with queries=1")
@pytest.mark.parametrize("queries", [1, 2, 6, 33])
def test_the_metric_is_never_asked_more_often_than_granted_and_every_call_is_counted(queries):
    counted = Counted()
    result = optimised(metric=mo.Metric(counted, on="labels", goal="max"), queries=queries)
    assert result.ledger.used == len(result.ledger.queries) == queries
    assert len(counted.rows) == result.ledger.calls
    assert result.ledger.calls == result.ledger.used + result.ledger.resamples + result.ledger.decisions
    # 360 rows are searched on, 240 held out. Acceptance: the original, the search's best and, if that is another, the
    # best start or threshold, on all held-out rows and on 500 resamples.
    assert counted.rows.count(240) == result.ledger.decisions in (2 * 501, 3 * 501)
    assert counted.rows.count(360) == len(counted.rows) - result.ledger.decisions


@pytest.mark.filterwarnings(f"ignore::{FlatValueWarning.__module__}.{FlatValueWarning.__name__}")
@pytest.mark.usefixtures("quick_paper")
def test_the_papers_preset_keeps_to_its_queries_too():
    counted = Counted()
    result = optimised(metric=mo.Metric(counted, on="labels", goal="max"), preset="paper", queries=20)
    assert result.ledger.used == 6 * 3 + 2  # six trajectories of three observations, and both ends of the last path
    assert len(counted.rows) == result.ledger.calls


def test_a_costly_metric_is_asked_no_more_than_the_queries_and_the_acceptance():
    counted = Counted()
    result = optimised(metric=mo.Metric(counted, on="labels", goal="max", costly=True), queries=12)
    assert counted.rows.count(360) == result.ledger.used + 1 == 13  # the original twice
    # All held-out rows, and all but one fold of 30, of 8, of the original, of the shift and, if that is another one, of
    # the search's best.
    models = counted.rows.count(240)
    assert models in (2, 3) and counted.rows.count(210) == models * 8
    assert result.ledger.decisions == models * 9 and len(counted.rows) == result.ledger.calls == 13 + models * 9


@pytest.mark.parametrize(("shift", "scale", "plainer"), [(-0.5, 0.6, True), (-0.2, 0.0, False)])
def test_what_was_found_beyond_a_shift_is_kept_only_if_it_beats_the_shift_on_held_out_rows(
    monkeypatch, shift, scale, plainer
):
    x = torch.linspace(-2, 2, 900)[torch.randperm(900, generator=torch.Generator().manual_seed(0)), None]
    y, net = (x[:, 0] > 0.5).long(), nn.Linear(1, 1)  # right from 0.5 on, and says yes from 0 on
    _ = nn.init.ones_(net.weight), nn.init.zeros_(net.bias)
    plain, free = torch.tensor([0.0, shift]), torch.tensor([scale, -0.5])  # a threshold, and one with another scale
    found = Outcome(free, ((1, torch.zeros(2)), (5, plain), (9, free)), plain=((1, torch.zeros(2)), (5, plain)))
    monkeypatch.setattr(importlib.import_module("metricopt.api.optimize"), "propose", lambda *_, **__: (found, 0.9))
    data = {"train": (x[:300], y[:300]), "val": (x[300:], y[300:])}
    result = mo.optimize(net, loss=cross_entropy, metric="accuracy", queries=9, adapter=mo.OutputAffine(), **data)
    assert result.accepted and result.plainer == plainer
    assert torch.equal(result.model.phi.detach(), plain if plainer else free)
    assert result.to_dict()["plainer"] == plainer == ("the search's best was not surely better" in str(result))
    assert result.ledger.decisions == 3 * 501  # the original, the threshold and the search's best, on the same rows
    assert torch.equal(result.outcome.phi, free)


@pytest.mark.parametrize(("at_least", "kept"), [(0.0, "plain"), (0.62, "free")])
def test_of_two_proposals_only_one_that_keeps_the_constraints_is_accepted(monkeypatch, at_least, kept):
    x = torch.linspace(-2, 2, 900)[torch.randperm(900, generator=torch.Generator().manual_seed(0)), None]
    y, net = (x[:, 0] > 0.5).long(), nn.Linear(1, 1)  # says yes to three quarters of all rows, of which half are right
    _ = nn.init.ones_(net.weight), nn.init.ones_(net.bias)
    plain, free = torch.tensor([0.0, -2.0]), torch.tensor([0.0, -1.0])  # yes to a quarter, and to half
    found = Outcome(free, ((1, torch.zeros(2)), (9, free)), plain=((1, torch.zeros(2)), (5, plain)))
    monkeypatch.setattr(importlib.import_module("metricopt.api.optimize"), "propose", lambda *_, **__: (found, 0.9))

    def share(_, labels):
        return float(labels.mean())

    result = mo.optimize(
        net,
        loss=cross_entropy,
        metric=mo.Metric(share, on="labels", goal="min", name="few"),
        train=(x[:300], y[:300]),
        val=(x[300:], y[300:]),
        queries=9,
        adapter=mo.OutputAffine(),
        keep=[mo.Constraint(mo.Metric(share, on="labels", goal="max", name="enough"), at_least=at_least / 2)],
    )
    assert result.accepted and torch.equal(result.model.phi.detach(), plain if kept == "plain" else free)
    assert result.plainer == (kept == "plain") and result.comparison.level == pytest.approx(0.9)


def test_rows_of_a_holdout_are_never_searched_on():
    seen = set()

    def error_rate(model, inputs, targets):
        seen.update(map(tuple, inputs.tolist()))
        return float(((model(inputs).squeeze(-1) > 0) != targets).float().mean())

    metric = mo.Metric(error_rate, on="model", goal="min")
    held_out = {tuple(row) for row in X[700:].tolist()}
    task_rows = []

    def watch(event):
        if event["event"] == "query":
            task_rows.append(bool(seen & held_out))

    mo.optimize(
        mlp(),
        loss=cross_entropy,
        metric=metric,
        train=(X[:300], Y[:300]),
        val=(X[300:700], Y[300:700]),
        holdout=(X[700:], Y[700:]),
        queries=8,
        recipe=FAST,
        watch=[watch],
    )
    assert task_rows == [False] * 8 and held_out <= seen


def test_without_learning_from_val_the_search_starts_from_the_training_data_only():
    stages = [
        [query.stage for query in optimised(learn_from_val=learn, queries=8).ledger.queries] for learn in (True, False)
    ]
    # The origin; plain and balanced, of one or both sets; statistics of inputs.
    assert [stage.count("start") for stage in stages] == [6, 4]


@pytest.mark.parametrize("inputs", [True, False])
def test_without_starts_no_loss_is_followed(inputs):
    result = optimised(recipe=mo.Recipe(starts=False, inputs=inputs, candidates=60, guided=False), queries=8)
    assert [query.stage for query in result.ledger.queries].count("start") == 1 + inputs


def test_a_net_without_normalisation_gets_a_dynamic_bias():
    result = optimised(mlp(nn.Identity), queries=3)
    assert "DynamicBias" in repr(result.model.spec)


def test_where_labels_are_hidden_all_rows_are_searched_and_decide_less_the_luck_of_the_search():
    counted = Counted()
    metric = mo.Metric(counted, on="labels", goal="max")
    result = optimised(metric=metric, queries=30, learn_from_val=False)
    assert set(counted.rows) == {600}  # nothing is held out
    held = result.comparison
    assert held.rows == "searched" and held.examples == 600
    if torch.equal(result.proposal, result.outcome.phi):
        # The middle of the interval is what is left of the gain.
        assert held.after - held.before > sum(held.interval) / 2
    assert "searched examples" in str(result)


def test_where_labels_are_hidden_and_nothing_can_be_learnt_the_original_is_returned():
    result = optimised(metric="accuracy", targets=NOISE, queries=60, learn_from_val=False, seed=1)
    assert not result.accepted and not bool(result.model.phi.any())


def test_with_a_holdout_hidden_labels_are_judged_on_it_as_it_is():
    result = mo.optimize(
        mlp(), loss=cross_entropy, metric="f1", train=(X[:300], Y[:300]), val=(X[300:700], Y[300:700]),
        holdout=(X[700:], Y[700:]), queries=12, recipe=FAST, learn_from_val=False,
    )  # fmt: skip
    assert result.comparison.rows == "held-out" and result.comparison.examples == 200


def test_a_quantised_network_keeps_its_weights_and_its_norms_are_modulated(capfd):
    plain = mlp(lambda: nn.LayerNorm(8)).eval()
    # torch deprecates its own quantisation, and says that gradients pass over such layers: starts from the loss are
    # worse for it, and cost a query each.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.(ao.)?quant|quantized::linear", DeprecationWarning)
        warnings.filterwarnings("ignore", "torch.(ao.)?quant|quantized::linear", UserWarning)
        warnings.filterwarnings("ignore", "the adapter cannot be folded", MergeWarning)
        net = torch.ao.quantization.quantize_dynamic(plain, {nn.Linear}, dtype=torch.qint8)
        before = net(X)
        result = optimised(net, queries=20, recipe=None)
    assert torch.equal(net(X), before)
    with pytest.warns(MergeWarning):
        assert torch.allclose(result.merge()(X), result.model(X))
    assert "BatchedFallback" not in capfd.readouterr().err
    with pytest.raises(MetricError, match=r"layer '0' .Linear. are quantised or sharded"):
        optimised(net, recipe=None, tune="weights")
