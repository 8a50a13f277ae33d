"""The page as text: the answer in words, nothing that loads, nothing that escapes."""

import re
from dataclasses import replace

import numpy as np
import pytest

from metricopt.core.errors import FileFormatError
from metricopt.report import page, read_run, run_of, write_report
from metricopt.report.answer import verdict_of

LOADS = re.compile(r"""(?:\bsrc|\bhref|\bsrcset|\baction|\bposter|xlink:href)\s*=|url\(|@import|fetch\(|\bimport\b""")


def accepted(low, high, *, yes, **more):
    found = {"event": "accepted", "before": 0.60, "after": 0.65, "interval": [low, high], "level": 0.9}
    return run_of([{**found, "confidence": 0.99, "resamples": 500, "examples": 1000, "accepted": yes, **more}])


def test_a_page_needs_nothing_from_outside(folder, paper_folder):
    for each in (folder, paper_folder):
        text = page(read_run(each))
        assert LOADS.findall(text) == []
        assert "http" not in text


def test_ids_are_unique(folder, paper_folder):
    for each in (folder, paper_folder):
        ids = re.findall(r'\bid="([^"]*)"', page(read_run(each)))
        assert len(ids) == len(set(ids)) > 5


def test_every_figure_has_a_reading(folder):
    text = page(read_run(folder))
    readings = re.findall(r"<figcaption>([^<]+)</figcaption>", text)
    assert len(readings) == text.count("<figure") == 6
    assert all(reading.endswith(".") and "nan" not in reading for reading in readings)


def test_names_from_outside_are_text_not_markup():
    evil = '<script>alert("x")</script>'
    events = [
        {"event": "start", "metric": {"name": evil}, "settings": {evil: evil}, "data": {evil: {"rows": 3}}},
        *({"event": "query", "index": i, "stage": evil, "cost": 0.5 - i / 10, "failure": evil} for i in range(4)),
        {"event": "rival", "name": evil, "values": [0.5]},
        {"event": "accepted", "before": 0.5, "after": 0.6, "constraints": [{"text": evil}], "accepted": False},
        {"event": "result", "stopped": evil},
    ]
    text = page(run_of(events))
    assert text.count("<script>") == 1  # the page's own
    assert "&lt;script&gt;" in text


def test_a_plainer_step_that_is_kept_is_said_to_be_one():
    found = [{"event": "accepted", "before": 0.6, "after": 0.65, "interval": [0.02, 0.08], "accepted": True}]
    assert "a shift of the outputs" in verdict_of(run_of([*found, {"event": "result", "plainer": True}]))[1]
    assert "a shift of the outputs" not in verdict_of(run_of([*found, {"event": "result", "plainer": False}]))[1]


def test_an_accepted_gain_says_why():
    kind, said = verdict_of(accepted(0.02, 0.08, yes=True))
    assert kind == "yes"
    assert said == (
        "The new model is kept: on 1,000 examples that the search never queried it is better, and the whole 90% "
        "interval of the gain (+0.0200 to +0.0800) lies above zero."
    )


@pytest.mark.parametrize(
    ("low", "high", "why"),
    [(-0.01, 0.05, "includes zero, so it may be luck"), (-0.05, -0.01, "it is worse")],
)
def test_what_is_not_accepted_says_why(low, high, why):
    kind, said = verdict_of(accepted(low, high, yes=False))
    assert kind == "no"
    assert said.startswith("The original model is returned")
    assert why in said


def test_a_broken_constraint_is_named_with_its_bound():
    row = {"text": "precision >= 0.8", "after": 0.81, "bound": 0.78, "confidence": 0.9, "holds": False}
    _, said = verdict_of(accepted(0.02, 0.08, yes=False, constraints=[row]))
    assert "it is better, but a constraint does not surely hold" in said
    assert "precision >= 0.8 is not surely kept (value 0.8100, 90% bound 0.7800)" in said


def test_a_run_that_stopped_early_says_so():
    _, said = verdict_of(run_of([{"event": "result", "stopped": "11 of 20 metric queries failed"}]))
    assert "ended early after 0 queries: 11 of 20 metric queries failed" in said


def test_the_answer_comes_before_everything_else(folder):
    text = page(read_run(folder))
    assert text.index('class="answer') < text.index("<figure") < text.index("<table")


def test_settings_versions_and_data_are_on_the_page(folder):
    run = read_run(folder)
    text = page(run)
    for part in ("settings", "model", "data", "versions"):
        assert run.start[part]
    assert str(run.start["versions"]["torch"]) in text
    assert str(run.start["data"]["train"]["fingerprint"]) in text


def test_a_result_writes_the_same_page_as_its_folder(result, tmp_path):
    found, folder = result
    path = found.report(tmp_path / "report.html")
    assert path.read_text(encoding="utf-8") == page(read_run(folder))


def test_a_run_without_a_folder_gives_the_same_pictures(result_without_folder, folder, tmp_path):
    text = result_without_folder.report(tmp_path / "r.html").read_text(encoding="utf-8")
    figures = re.compile(r"<figure.*?</figure>", re.DOTALL)
    assert figures.findall(text) == figures.findall(page(read_run(folder)))


def test_a_result_without_events_still_gives_the_answer(result, tmp_path):
    found, _ = result
    text = replace(found, events=()).report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert 'id="figure-progress"' in text
    assert f"{found.comparison.after:.4f}" in text
    assert 'id="figure-space"' not in text  # no phi is remembered


def test_a_page_is_whole_or_absent(tmp_path):
    run = run_of([{"event": "query", "cost": 0.5}])
    with pytest.raises(FileFormatError, match="is a folder"):
        write_report(run, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileFormatError, match="cannot be written"):
        write_report(run, tmp_path / "file" / "report.html")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file"]


def test_a_thousand_queries_stay_under_two_megabytes():
    events = [{"event": "query", "index": i, "stage": "value", "cost": 0.5, "phi": [i, 2 * i]} for i in range(1000)]
    forecasts = [{"event": "forecast", "first": i, "predicted": [0.4 + i / 9999]} for i in range(1000)]
    assert len(page(run_of([*events, *forecasts])).encode()) < 2_000_000


def test_finetuned_weights_are_told_as_out_of_fold_and_half_the_rows_are_never_the_best(weights_folder):
    run = read_run(weights_folder)
    text = page(run)
    assert "each predicted by networks that had not seen it" in text and "on out-of-fold data" in text
    assert run.parts.any() and not run.parts[run.lowest]
    assert np.nanmin(np.where(run.parts, np.nan, run.costs)) == run.costs[run.lowest]
