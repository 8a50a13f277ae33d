"""No silence and no silent wrong answer: what is said at once, by whom, and that something is always heard."""

import io
import itertools
import sys
import time

import numpy as np
import pytest
import torch
from tests.faults.counted import KINDS, X, Y, network, run
from torch import nn

import metricopt as mo
from metricopt.core.errors import MergeWarning, MetricError, SuspicionWarning
from metricopt.run.progress import Progress


def labels_metric(function, **facts):
    return mo.Metric(function, on="labels", goal="max", **facts)


def test_a_metric_that_is_constant_over_ten_different_predictions_is_said():
    with pytest.warns(SuspicionWarning, match=r"'stuck' gave 0.5 for each of 1\d different predictions") as said:
        run(labels_metric(lambda _truth, _labels: 0.5, name="stuck"), queries=30)
    assert sum("stuck" in str(one.message) for one in said) == 1


def test_a_metric_that_answers_differently_when_asked_twice_is_said():
    draw = np.random.default_rng(0)
    with pytest.warns(SuspicionWarning, match=r"'judge' answered .* and then .* for the same predictions") as said:
        run(labels_metric(lambda y, p: float((y == p).mean()) - 0.1 * draw.random(), name="judge"))
    assert len(said) == 1


def test_a_constraint_that_always_raises_is_named_at_once():
    def broken(_truth, _labels):
        raise ZeroDivisionError("no positives")

    keep = [mo.Constraint(labels_metric(broken, name="precision at 5"), at_least=0.5)]
    with pytest.warns(mo.core.errors.MetricOptWarning) as said:
        run(KINDS["labels"](_nowhere()), keep=keep)
    assert any("the constraint precision at 5 >= 0.5 fails for the original" in str(one.message) for one in said)


def _nowhere():
    from pathlib import Path

    return Path("/dev/null")


@pytest.mark.parametrize("way", ["adapter", "weights"])
def test_a_typo_in_a_metric_surfaces_before_any_step_of_finetuning(way):
    steps = []

    def loss(outputs, targets):
        steps.append(outputs.requires_grad)
        return nn.functional.cross_entropy(outputs, targets)

    def typo(truth, labels):
        return float((truth == lables).mean())  # noqa: F821

    settings = {"recipe": mo.Recipe(start_steps=200)} if way == "adapter" else {"effort": "quick"}
    with pytest.raises(MetricError), pytest.warns(mo.core.errors.MetricFailureWarning, match="'lables' is not defined"):
        mo.optimize(
            network(), loss=loss, metric=labels_metric(typo), train=(X[:160], Y[:160]), val=(X[160:], Y[160:]),
            queries=20, **settings,
        )  # fmt: skip
    assert len(steps) <= 12, "checks of the loss, no finetuning"


def test_a_metric_without_bounds_is_anchored_to_the_original_and_a_terrible_value_is_bad_not_failed(tmp_path):
    def error(truth, values):
        return float(1e30 if np.abs(values).max() > 8 else np.abs(values - truth).mean())

    torch.manual_seed(0)
    x = torch.randn(400, 3, generator=torch.Generator().manual_seed(0))
    y = 3 * x[:, :1] + 1
    settings = {"train": (x[:150], y[:150]), "val": (x[150:], y[150:]), "queries": 20, "loss": nn.functional.l1_loss}
    metric = mo.Metric(error, on="values", goal="min")
    result = mo.optimize(nn.Linear(3, 1), metric=metric, recipe=mo.Recipe(start_steps=12), **settings)
    assert result.ledger.queries[0].cost == 0.5 and result.ledger.failures == 0 and result.accepted
    assert result.comparison.after < result.comparison.before
    assert "nan" not in result.report(tmp_path / "report.html").read_text().lower().split("<svg")[0]


def test_a_class_of_training_that_validation_lacks_is_a_note_and_no_error():
    targets = torch.where(torch.arange(420) < 160, torch.arange(420) % 3, Y)
    torch.manual_seed(0)
    result = mo.optimize(
        nn.Sequential(nn.Linear(4, 3)), metric="accuracy", train=(X[:160], targets[:160]),
        val=(X[160:], targets[160:]), queries=8, recipe=mo.Recipe(start_steps=5),
    )  # fmt: skip
    assert "val has no example of class 2, which train has" in result.plan["notes"]


def test_a_budget_or_rows_too_few_to_find_or_confirm_anything_are_said_before_they_are_spent():
    asked = []

    def metric(truth, labels):
        asked.append(1)
        return float((truth == labels).mean())

    def warned(event):
        if event["event"] == "plan":
            assert not asked or event["seconds"] is not None

    with pytest.warns(SuspicionWarning) as said:
        mo.optimize(
            network(), metric=labels_metric(metric), train=(X[:160], Y[:160]), val=(X[160:190], Y[160:190]),
            queries=1, recipe=mo.Recipe(start_steps=5), watch=[warned],
        )  # fmt: skip
    texts = [str(one.message) for one in said]
    assert any("nothing can be found with queries=1" in text for text in texts)
    assert any("only a gain on at least 4 of the 12 held-out rows can be confirmed" in text for text in texts)


def test_a_net_that_cannot_be_merged_by_folding_is_said_before_the_first_query_and_merged_all_the_same():
    torch.manual_seed(0)
    net, asked = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2), nn.Softmax(dim=1)), []
    with pytest.warns(MergeWarning, match="merge gives a module that computes it"):
        result = mo.optimize(
            net, metric=labels_metric(lambda y, p: asked.append(1) or float((y == p).mean())), loss=nll,
            train=(X[:160], Y[:160]), val=(X[160:], Y[160:]), queries=12, adapter=mo.OutputAffine(),
            watch=[lambda _: None],
        )  # fmt: skip
        merged = result.merge()
    torch.testing.assert_close(merged(X), result.model(X))


def nll(probabilities, targets):
    return nn.functional.nll_loss(probabilities.clamp_min(1e-6).log(), targets)


class SlowBlock(nn.Module):
    """A layer that takes a few milliseconds a row, as those of large networks do."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        time.sleep(0.004 * len(x))
        return self.head(x)


def test_a_slow_network_gives_a_sign_of_life_all_the_time():
    heard, budget = [time.monotonic()], []

    def watch(event):
        heard.append(time.monotonic())
        budget.append(event.get("phase"))

    mo.optimize(
        SlowBlock(), metric="accuracy", train=(X[:160], Y[:160]), val=(X[160:], Y[160:]), queries=3, watch=[watch],
        recipe=mo.Recipe(start_steps=4, candidates=20, rows=50),
    )  # fmt: skip
    assert {"first answer", "loss finetuning", "search", "decision", "landscape"} <= set(budget)
    silences = [after - before for before, after in itertools.pairwise(heard)]
    assert max(silences) < 5.0


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_shown_in_a_terminal_and_never_in_a_pipe(monkeypatch):
    shown = []
    monkeypatch.setattr(Progress, "say", lambda _self, line: shown.append(line))
    for stream, expected in ((io.StringIO(), 0), (Terminal(), 2)):
        shown.clear()
        monkeypatch.setattr(sys, "stderr", stream)
        mo.optimize(
            network(), metric="accuracy", train=(X[:160], Y[:160]), val=(X[160:], Y[160:]), queries=5,
            recipe=mo.Recipe(start_steps=5, candidates=20),
        )  # fmt: skip
        assert len(shown) == expected
    assert shown[0].startswith("plan: at most ") and shown[1].startswith("about ")


def test_the_seconds_of_a_resumed_run_include_those_before(tmp_path):
    heard = []

    def stop(event):
        heard.append(event["event"])
        if heard.count("query") == 5:
            time.sleep(1.0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(KINDS["labels"](tmp_path / "calls"), run_dir=tmp_path / "run", watch=[stop])
    began = time.monotonic()
    first = run(KINDS["labels"](tmp_path / "calls"), run_dir=tmp_path / "run", resume=True)
    assert first.seconds > time.monotonic() - began


def test_the_seconds_are_those_of_all_of_it(tmp_path):
    heard = []

    def slow(event):
        if event.get("phase") == "landscape" and not (heard and heard[-1][0] == "landscape"):
            time.sleep(0.5)
        heard.append((event.get("phase"), time.perf_counter()))

    result = run(KINDS["labels"](tmp_path / "calls"), queries=4, watch=[slow])
    landscape = next(at for phase, at in heard if phase == "landscape")
    assert result.seconds > landscape - heard[0][1] > 0.5
