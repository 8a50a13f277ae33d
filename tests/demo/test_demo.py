"""The demo: two methods on the same rows with as many calls, and numbers that can be checked."""

import dataclasses
import json

import pytest
import torch
from sklearn.metrics import f1_score

from metricopt.acceptance.comparison import Comparison
from metricopt.cli.app import main
from metricopt.demo import Demo, demo, demo_text, output, write_demo
from metricopt.demo.picture import draw_progress, spread
from metricopt.demo.play import play


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def done(folder) -> Demo:
    return demo(queries=40, out=folder)


def with_difference(done: Demo, low: float, high: float) -> Demo:
    difference = Comparison(0.5, 0.5, (low, high), level=0.9, confidence=0.5, resamples=9, examples=9)
    return dataclasses.replace(done, first=dataclasses.replace(done.first, difference=difference))


@pytest.mark.parametrize(("name", "average"), [("first", "macro"), ("second", "binary")])
def test_before_and_tuned_are_what_scikit_learn_computes_on_the_test_rows(done, name, average):
    played = getattr(done, name)
    inputs, targets = played.act.parts.test
    with torch.no_grad():
        outputs = played.act.net(inputs)
    for value, scores in ((played.gain.before, outputs), (played.tuning_gain.after, outputs + played.tuned.bias)):
        labels = scores.argmax(1) if scores.shape[1] > 1 else (scores[:, 0] > 0).long()
        assert value == pytest.approx(f1_score(targets, labels, average=average))


def test_the_difference_is_between_what_both_methods_gained(done):
    for played in (done.first, done.second):
        assert played.difference.before == played.tuning_gain.after
        assert played.difference.after == played.gain.after
        assert played.gain.before == played.tuning_gain.before


def test_under_the_shift_it_is_surely_ahead_of_bias_tuning_even_with_few_calls(done):
    assert done.first.difference.interval[0] > 0.02
    assert done.first.found["accepted"]


def test_tuning_gets_as_many_calls_as_the_search_and_its_decision_took(done):
    for played in (done.first, done.second):
        assert len(played.best) <= 40
        assert len(played.tuned.best) == played.found["calls"] > 40


def test_the_folder_has_numbers_picture_and_page_that_agree(done, folder):
    assert all(name in write_demo(done, folder) for name in ("result.json", "report.html", "progress.png"))
    result = json.loads((folder / "result.json").read_text())
    assert (folder / "progress.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert f"{result['threshold_tuning']['after']:.4f}" in page or "bias tuning" in page
    assert f"{result['after']:.4f}" in page
    promised = {"metric", "goal", "before", "after", "interval", "accepted", "queries", "seconds", "rows", "data"}
    for act in (result, result["second_act"]):
        assert promised | {"threshold_tuning", "metricopt_over_threshold_tuning", "decision"} <= set(act)
    assert result["rows"] == {"train": 12_000, "val": 5_000, "test": 7_000}
    assert {"seed", "versions", "seconds_in_all"} <= set(result)


def test_a_demo_that_was_stopped_goes_on_and_finds_the_same(done, folder):
    again = play(done.second.act, queries=40, seed=0, out=folder, resume=True)
    assert again.difference == done.second.difference
    assert again.best == done.second.best


def test_the_command_says_what_was_done_and_where_it_is(done, folder, capsys, monkeypatch):
    asked = {}
    monkeypatch.setattr("metricopt.demo.demo", lambda **settings: asked.update(settings) or done)
    with pytest.raises(SystemExit) as left:
        main(["demo", "--queries", "40", "--out", str(folder)])
    assert left.value.code in (None, 0)
    assert (asked["queries"], asked["out"], asked["seed"]) == (40, folder, 0)
    result = json.loads((folder / "result.json").read_text())
    assert result["after"] == done.first.gain.after
    said = capsys.readouterr().out
    for act in (result, result["second_act"]):
        shown = (act["before"], act["threshold_tuning"]["after"], act["after"])
        assert all(f"{value:.3f}" in said for value in shown)
    assert "metricopt is better than bias tuning" in said
    assert str(folder / "report.html") in said
    assert (folder / "progress.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_a_sentence_says_why_there_is_no_picture(done, tmp_path, monkeypatch):
    monkeypatch.setattr(output, "find_spec", lambda _: None)
    assert "matplotlib is missing" in write_demo(done, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["result.json"]


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.01, 0.02, "metricopt is better than bias tuning: by +0.010 to +0.020"),
        (-0.02, -0.01, "bias tuning is better than metricopt"),
        (-0.1, 0.1, "a tie: metricopt minus bias tuning is -0.100 to +0.100"),
    ],
)
def test_the_verdict_follows_the_interval(done, low, high, said):
    assert said in demo_text(with_difference(done, low, high))


def test_the_text_says_the_numbers_of_the_result(done):
    text = demo_text(done)
    for played in (done.first, done.second):
        assert all(
            f"{value:.3f}" in text for value in (played.gain.before, played.gain.after, played.tuning_gain.after)
        )
    assert max(len(line) for line in text.splitlines()) <= 110


def test_the_drawing_replaces_an_older_one_and_leaves_no_draft(done, tmp_path):
    path = tmp_path / "new" / "progress.png"
    for _ in range(2):
        draw_progress(done, path)
    assert [file.name for file in path.parent.iterdir()] == ["progress.png"]


def test_labels_keep_their_distance_and_their_order():
    placed = spread([0.70, 0.69, 0.5], 0.05)
    assert placed[0] - placed[1] == pytest.approx(0.05)
    assert placed[2] == 0.5
