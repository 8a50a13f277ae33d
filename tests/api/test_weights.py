"""Finetuned weights through the front door: which way is taken, who decides, what is returned, what a kill leaves."""

import copy

import pytest
import torch
from tests.crossfit.problems import network, rows
from torch import nn

import metricopt as mo
from metricopt.core.errors import AdapterError, BudgetError, MetricError, UnknownNameError
from metricopt.crossfit import CrossFit
from metricopt.crossfit.finetuner import Anew

NET = network()
TRAIN, VAL, HELD = rows(400, 1, turned=False), rows(300, 2, turned=True), rows(300, 3, turned=True)
QUICK = CrossFit(folds=2, epochs=12, batch=64, rates=(3e-2,), alphas=(1.0,))


def optimized(**settings):
    settings = {"metric": "accuracy", "train": TRAIN, "val": VAL, "queries": 20, "effort": QUICK, **settings}
    return mo.optimize(copy.deepcopy(NET), **settings)


def test_the_network_learns_from_all_rows_and_is_judged_on_rows_it_has_not_seen():
    result = optimized()
    assert result.accepted and result.verdict == "better"
    held = result.comparison
    assert held.rows == "out-of-fold" and held.examples == len(VAL[0]) and "out-of-fold" in str(result)
    test = result.evaluate(HELD)
    assert test.after > test.before + 0.1
    # What was promised out of fold holds on fresh rows, within four standard errors of 300 rows each.
    assert abs(test.after - held.after) < 4 * (2 * 0.25 / 300) ** 0.5
    assert held.refit is not None and held.refit > held.before


def test_the_users_network_is_untouched_and_the_merged_one_is_of_its_class():
    net = copy.deepcopy(NET)
    before = copy.deepcopy(net.state_dict())
    result = mo.optimize(net, metric="accuracy", train=TRAIN, val=VAL, queries=20, effort=QUICK)
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    merged = result.merge()
    assert type(merged) is type(net) and list(merged.state_dict()) == list(before)
    torch.testing.assert_close(merged(HELD[0]), result.model(HELD[0]))


def test_a_holdout_decides_instead_of_rows_out_of_fold():
    result = optimized(holdout=HELD)
    assert result.comparison.rows == "held-out" and result.comparison.examples == len(HELD[0])
    assert result.comparison.refit is None and result.accepted


def test_the_original_comes_back_where_nothing_can_be_learnt_and_the_proposal_stays_at_hand():
    noise = torch.randint(0, 3, (300,), generator=torch.Generator().manual_seed(0))
    result = optimized(val=(VAL[0], noise))
    assert not result.accepted and not result.model.phi.any()
    assert result.verdict in ("likely better, not sure", "not better")
    assert isinstance(result.proposed, nn.Sequential)
    torch.testing.assert_close(result.merge()(HELD[0]), NET(HELD[0]), rtol=0, atol=0)


def test_more_confidence_accepts_less():
    gains = [optimized(confidence=level).comparison.interval[0] for level in (0.5, 0.9, 0.999)]
    assert gains[0] > gains[1] > gains[2]


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"tune": "weights", "learn_from_val": False}, MetricError, "may not be learnt from"),
        ({"tune": "weights", "adapter": mo.OutputAffine()}, MetricError, "an adapter was given"),
        ({"tune": "light", "recipe": mo.Recipe()}, MetricError, "settings of the adapter's search"),
        ({"tune": "everything"}, UnknownNameError, "tune is 'everything'; expected 'weights'"),
        ({"effort": "heroic"}, UnknownNameError, "effort is 'heroic'; expected 'quick'"),
        ({"confidence": 1.0}, BudgetError, r"confidence is 1.0; expected a number from 0.5 to below 1"),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(settings, error, said):
    with pytest.raises(error, match=said):
        optimized(**settings)


@pytest.mark.parametrize("settings", [{"learn_from_val": False}, {"adapter": mo.OutputAffine()}, {"tune": "adapter"}])
def test_an_adapter_is_searched_where_labels_are_hidden_or_it_is_asked_for(settings):
    result = optimized(**settings)
    rows = "searched" if settings == {"learn_from_val": False} else "held-out"
    assert result.comparison.rows == rows and not result.model.moves_weights


def test_a_network_that_cannot_learn_is_adapted_instead_unless_the_user_insists():
    class Frozen(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = copy.deepcopy(NET)

        def forward(self, x):
            with torch.no_grad():
                hidden = self.inner[:4](x)
            return (self.inner[4](hidden) * 1.0).detach().requires_grad_(False) + 0.0 * x.sum()

    def run(**settings):
        data = {"train": TRAIN, "val": VAL, "queries": 12, "metric": "accuracy", "effort": QUICK}
        return mo.optimize(Frozen(), adapter=None, **data, **settings)

    assert not run().model.moves_weights
    with pytest.raises(AdapterError, match="one step of finetuning raised RuntimeError"):
        run(tune="weights")


@pytest.mark.filterwarnings("ignore:the constraint zeros")
def test_constraints_are_kept_out_of_fold_and_on_the_way():
    often = mo.Metric(lambda _, labels: float((labels == 0).mean()), on="labels", goal="max", name="zeros")
    free, bound = optimized(), optimized(keep=[mo.Constraint(often, at_least=0.9, confidence=0.8)])
    assert free.accepted and not bound.accepted
    assert [kept.holds for kept in bound.kept] == [False]


def test_finetuned_weights_wait_in_the_folder_for_a_run_that_is_resumed(tmp_path, monkeypatch):
    whole = optimized(run_dir=tmp_path / "whole")
    assert not list((tmp_path / "whole").glob("finetuned*")), "only a run that goes on needs them"

    def watch(event):
        if event["event"] == "query" and event["stage"] == "finetuned weights":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        optimized(run_dir=tmp_path / "torn", watch=[watch])
    assert list((tmp_path / "torn").glob("finetuned*.safetensors"))
    monkeypatch.setattr(Anew, "fit", lambda *_, **__: pytest.fail("finetuned twice"))
    resumed = optimized(run_dir=tmp_path / "torn", resume=True)
    assert torch.equal(resumed.proposal, whole.proposal)
    assert [q.cost for q in resumed.ledger.queries] == [q.cost for q in whole.ledger.queries]
    torch.testing.assert_close(resumed.model(HELD[0]), whole.model(HELD[0]), rtol=0, atol=0)


def test_saved_and_loaded_it_predicts_the_same(tmp_path):
    result = optimized()
    result.save(tmp_path)
    again = mo.load_result(tmp_path, NET, "accuracy", example=TRAIN[0][:2])
    assert torch.equal(again.model(HELD[0]), result.model(HELD[0]))
    assert again.comparison == result.comparison and again.verdict == result.verdict
