"""The demo: two methods on the same rows, judged alike, with numbers that can be checked."""

import dataclasses

import pytest
import torch
from sklearn.metrics import f1_score

from metricopt.acceptance.bootstrap import Comparison
from metricopt_lab.demo.demo import Demo, demo, draw_progress
from metricopt_lab.demo.text import demo_text


@pytest.fixture(scope="module")
def done() -> Demo:
    return demo(queries=30, train_rows=4000)


def with_difference(done: Demo, low: float, high: float) -> Demo:
    return dataclasses.replace(
        done, difference=Comparison(0.5, 0.5, (low, high), level=0.9, confidence=0.5, resamples=9, examples=9)
    )


def test_before_is_the_f1_that_scikit_learn_computes_on_the_test_rows(done):
    test = done.problem.test
    with torch.no_grad():
        expected = f1_score(test.targets, done.problem.net(test.inputs).reshape(-1) > 0)
    assert done.metricopt.test.before == done.threshold.test.before == pytest.approx(expected)


def test_after_is_the_f1_of_what_was_kept(done):
    for searched in (done.metricopt, done.threshold):
        expected = f1_score(done.problem.test.targets, searched.outputs.reshape(-1) > 0)
        assert searched.test.after == pytest.approx(expected)


def test_neither_method_spends_more_queries_than_granted(done):
    assert len(done.metricopt.best) == 30
    assert 1 < len(done.threshold.best) <= 30


def test_the_result_has_all_that_is_promised(done):
    result = done.to_dict()
    promised = {"metric", "goal", "before", "after", "interval", "accepted", "queries", "seconds"}
    assert promised | {"threshold_tuning", "held_out", "rows", "rank_correlation", "versions", "seed", "data"} <= set(
        result
    )
    assert promised - {"metric", "goal"} <= set(result["threshold_tuning"])
    assert result["rows"] == {"train": 4000, "search": 2442, "held_out": 2443, "test": 9768}
    assert len(result["data"]["fingerprint"]) == 64


def test_the_sets_sum_to_the_split_of_48842_rows(done):
    rows = done.to_dict()["rows"]
    assert rows["search"] + rows["held_out"] + rows["test"] == 48_842 - 34_189


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.01, 0.02, "MetricOpt is better"), (-0.02, -0.01, "Threshold tuning is better"), (-0.1, 0.1, "is as good here")],
)
def test_the_verdict_follows_the_interval(done, low, high, verdict):
    assert verdict in demo_text(with_difference(done, low, high))


def test_the_drawing_replaces_an_older_one_and_leaves_no_draft(done, tmp_path):
    path = tmp_path / "new" / "progress.png"
    for _ in range(2):
        draw_progress(done, path)
    assert [file.name for file in path.parent.iterdir()] == ["progress.png"]
