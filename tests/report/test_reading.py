"""Event logs of every condition become a run, and what they lack is said."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from metricopt.core.errors import FileFormatError
from metricopt.core.plain import packed
from metricopt.report import page, read_run, run_of
from metricopt.run.events import NAME


def query(index, cost, **more):
    return {"event": "query", "index": index, "stage": "value", "cost": cost, **more}


def test_what_the_search_did_is_what_the_report_reads(result):
    found, folder = result
    run = read_run(folder)
    assert np.allclose(run.costs, [each.cost for each in found.ledger.queries], equal_nan=True)
    assert list(run.stages) == [each.stage for each in found.ledger.queries]
    assert run.points.shape == (len(run.costs), len(found.proposal))
    assert run.accepted["before"] == found.comparison.before
    assert np.allclose(run.proposal, found.proposal.numpy())
    assert run.missing == ()


def test_every_incumbent_is_a_query_with_that_very_phi(folder):
    run = read_run(folder)
    events = [json.loads(line) for line in (folder / NAME).read_text().splitlines()]
    phis = [event["phi"] for event in events if event["event"] == "incumbent"]
    assert [packed(torch.tensor(run.points[i], dtype=torch.float32)) for i in run.incumbents] == phis


def test_forecasts_meet_the_answers_they_were_about(folder):
    run = read_run(folder)
    events = [json.loads(line) for line in (folder / NAME).read_text().splitlines()]
    true = [cost for event in events if event["event"] == "forecast" for cost in event["true"]]
    assert np.allclose(run.costs[run.forecasts[:, 0].astype(int)], true)
    assert (run.forecasts[:, 2] > 0).all()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_run_that_is_going_on_gives_what_there_is(folder, tmp_path, share):
    content = (folder / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(content[: int(share * len(content))])
    run = read_run(tmp_path)
    whole = read_run(folder)
    assert np.array_equal(run.costs, whole.costs[: len(run.costs)])
    assert any("no result yet" in each for each in run.missing)
    assert "not finished" in page(run)


def test_a_damaged_line_costs_that_line_only(folder, tmp_path):
    lines = (folder / NAME).read_bytes().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if b'"index": 7' in line)
    lines[at] = b"\x00\xff{garbage\n"
    (tmp_path / NAME).write_bytes(b"".join(lines))
    run = read_run(tmp_path)
    assert len(run.costs) == len(read_run(folder).costs) - 1
    assert run.missing[0] == "1 line of the event log could not be read."
    assert run.missing[1] == "Not in the log, though later ones are: 1 query."


def test_a_resumed_run_counts_a_query_once():
    run = run_of([query(0, 0.5), query(1, 0.4), query(1, 0.4), query(2, 0.3)])
    assert run.costs.tolist() == [0.5, 0.4, 0.3]


def test_points_that_break_a_constraint_are_never_the_best():
    run = run_of([query(0, 0.5), query(1, 0.1, violation=0.2), query(2, 0.4)])
    assert run.best.tolist() == [0.5, 0.5, 0.6]
    assert run.path == (0, 2)


def test_failed_queries_are_no_answers_and_keep_their_reason():
    run = run_of([query(0, None, failure="timed out"), query(1, 0.25)])
    assert np.isnan(run.best[0])
    assert run.best[1] == 0.75
    assert run.failures == {0: "timed out"}
    assert "timed out" in page(run)


def test_a_metric_to_minimise_in_its_own_units():
    start = {"event": "start", "metric": {"name": "mae", "goal": "min", "bounds": [0, 10]}}
    run = run_of([start, query(0, 0.5), query(1, 0.2)])
    assert run.values.tolist() == [5.0, 2.0]
    assert run.best.tolist() == [5.0, 2.0]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"not json\n", b"[1, 2]\n", b"\x00" * 100])
def test_a_file_without_a_single_event_is_refused_in_one_sentence(tmp_path, content):
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(FileFormatError, match="no readable event"):
        read_run(tmp_path)


def test_a_folder_without_a_run_is_named(tmp_path):
    with pytest.raises(FileFormatError, match=r"events\.jsonl.*name the folder"):
        read_run(tmp_path)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KINDS = (
    "start",
    "query",
    "forecast",
    "incumbent",
    "trajectory",
    "health",
    "embedding",
    "accepted",
    "landscape",
    "test",
)
KEYS = ("index", "stage", "cost", "value", "phi", "metric", "settings", "first", "predicted", "std", "mean", "costs")
MORE = ("observed_steps", "features", "shares", "loss", "interval", "changes", "constraints", "name", "values", "time")
EVENT = st.builds(
    lambda kind, fields: {**fields, "event": kind},
    st.sampled_from((*KINDS, "result", "rival")),
    st.dictionaries(st.sampled_from((*KEYS, *MORE, "before", "after", "violation", "accepted", "level")), ANYTHING),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(EVENT, max_size=8))
def test_whatever_an_event_holds_there_is_a_page(events):
    assert page(run_of(events)).endswith("</html>\n")


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_log_with_flipped_bytes_gives_a_page_or_one_sentence(folder, data):
    content = bytearray((folder / NAME).read_bytes())
    for _ in range(data.draw(st.integers(1, 20))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    events = []
    for line in bytes(content).split(b"\n"):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and isinstance(event.get("event"), str):
            events.append(event)
    assert page(run_of(events)).endswith("</html>\n")


def test_whole_numbers_that_no_float_holds_are_left_out_of_the_page():
    huge = 10**400
    accepted = {
        "event": "accepted",
        "before": 0.5,
        "after": huge,
        "interval": [huge, -huge],
        "changes": {"won": [huge]},
    }
    events = [query(0, 0.5, value=huge), accepted, {"event": "result", "seconds": huge, "confidence": huge}]
    assert str(huge)[:50] not in page(run_of(events))
