"""A call is a call: what the user's function, command or server counts is what the ledger says, and within the plan."""

import math
import re
import time

import pytest
import torch
from tests.faults.counted import KINDS, _metric, _right, command, counted, run, server, times

import metricopt as mo
from metricopt.core.errors import MetricError, MetricFailureWarning, PlanError
from metricopt.run.events import NAME, read_events
from metricopt.run.ledger import QueryLedger

pytestmark = pytest.mark.filterwarnings(f"ignore::{MetricFailureWarning.__module__}.{MetricFailureWarning.__name__}")


def agrees(result, *counters):
    made = sum(map(times, counters))
    printed = int(re.search(r"(\d+) calls in all of at most (\d+)", str(result))[1])
    assert made == printed == result.ledger.calls == result.to_dict()["calls"]
    assert made <= result.plan["calls"] == sum(calls for _, calls, _ in result.plan["lines"])


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_function_counts_is_what_is_printed_and_no_more_than_the_plan(kind, tmp_path):
    result = run(KINDS[kind](tmp_path / "calls"))
    agrees(result, tmp_path / "calls")


@pytest.mark.parametrize("kind", ["labels", "declared costly", "whole outputs"])
def test_so_it_is_with_a_constraint_cheap_or_costly(kind, tmp_path):
    for costly in (False, True):
        calls, checks = tmp_path / f"calls {costly}", tmp_path / f"checks {costly}"
        keep = [mo.Constraint(_metric(_right, checks, on="labels", goal="max", costly=costly), at_least=0.5)]
        agrees(run(KINDS[kind](calls), keep=keep), calls, checks)


@pytest.mark.parametrize("kind", ["labels", "declared costly"])
def test_so_it_is_where_the_weights_are_finetuned(kind, tmp_path):
    agrees(run(KINDS[kind](tmp_path / "calls"), way="weights"), tmp_path / "calls")


def test_a_command_is_run_as_often_as_is_printed(tmp_path):
    result = run(command(tmp_path, tmp_path / "calls"), queries=6)
    agrees(result, tmp_path / "calls")


def test_further_attempts_of_a_server_are_calls_too(tmp_path):
    with server(tmp_path / "calls") as metric:
        result = run(metric, queries=10)
    agrees(result, tmp_path / "calls")
    assert result.ledger.extra != 0


def test_resuming_a_finished_run_of_a_command_runs_it_no_more(tmp_path):
    first = run(command(tmp_path, tmp_path / "calls"), queries=6, run_dir=tmp_path / "run")
    made = times(tmp_path / "calls")
    again = run(command(tmp_path, tmp_path / "calls"), queries=6, run_dir=tmp_path / "run", resume=True)
    assert times(tmp_path / "calls") == made == again.ledger.calls and again.comparison == first.comparison


class Stop(BaseException):
    """As a kill, but of this run alone."""


@pytest.mark.parametrize("after", [1, 5, 13, 20, 26])
@pytest.mark.parametrize("kind", ["labels", "declared costly", "logits, no bounds"])
def test_a_run_that_is_stopped_between_two_calls_and_resumed_makes_no_call_twice(kind, after, tmp_path):
    calls, heard = tmp_path / "calls", []

    def stop(event):
        heard.append(event["event"] in ("query", "asked"))
        if sum(heard) == after and len(heard) < 10**6:
            heard.extend([False] * 10**6)
            raise Stop

    with pytest.raises(Stop):
        run(KINDS[kind](calls), run_dir=tmp_path / "run", watch=[stop])
    result = run(KINDS[kind](calls), run_dir=tmp_path / "run", resume=True)
    agrees(result, calls)


def test_an_outage_during_the_decision_is_an_error_that_says_resume_and_resuming_pays_for_no_answer_twice(tmp_path):
    calls, down = tmp_path / "calls", tmp_path / "down"

    def function(truth, labels):
        counted(calls)
        if down.exists() and len(truth) != 156:  # the rows that are searched on
            raise ConnectionError("no route to host")
        return float((truth == labels).mean())

    def tried(**settings):
        metric = mo.Metric(function, on="labels", goal="max", name="remote", costly=True)
        return run(metric, run_dir=tmp_path / "run", **settings)

    down.touch()
    for settings, most in (({}, 14 + 1 + 3 * 4), ({"resume": True}, 14 + 1 + 3 * 7)):  # twice, as outages may last
        with pytest.raises(MetricError, match=r"no answer about the held-out rows.*resume=True"):
            tried(**settings)
        assert times(calls) <= most, "failures in the decision are bounded"
    down.unlink()
    result = tried(resume=True)
    agrees(result, calls)
    assert not math.isnan(result.comparison.before) and result.ledger.used == 14


def test_more_calls_than_planned_are_refused_before_they_are_made():
    ledger, made = QueryLedger(limits={"decisions": 3}), []
    ledger.once("a", lambda: torch.zeros(2), kind="decisions", calls=2)
    with pytest.raises(
        PlanError, match=r"4 calls of a metric \(decisions\) would be made, but the plan says at most 3"
    ):
        ledger.once("b", lambda: made.append(1) or torch.zeros(2), kind="decisions", calls=2)
    assert not made and ledger.calls == 2


def test_the_plan_is_stated_before_the_first_call_and_again_with_the_time_it_takes(tmp_path):
    calls, stated = tmp_path / "calls", []

    def watch(event):
        if event["event"] == "plan":
            stated.append((times(calls), event))

    result = run(KINDS["labels"](calls), watch=[watch], run_dir=tmp_path / "run")
    (before, first), (after, second) = stated
    assert before == 0 and first["seconds"] is None
    assert after == 2 and second["seconds"] > 0 and second["calls"] <= first["calls"]
    assert first["given"] == "labels: int64 (156,), targets: int64 (156,)" and first["loss"] == "cross_entropy"
    assert {line[0] for line in first["lines"]} == {"search", "noise", "decision"}
    assert result.plan["calls"] == second["calls"]
    assert [event["event"] for event in read_events(tmp_path / "run" / NAME)].count("plan") == 2


def test_a_call_that_takes_long_makes_a_metric_costly_and_so_it_stays_when_resumed(tmp_path, monkeypatch):
    calls = tmp_path / "calls"

    def slow(truth, labels):
        counted(calls)
        time.sleep(0.06)
        return float((truth == labels).mean())

    metric = mo.Metric(slow, on="labels", goal="max")
    result = run(metric, queries=8, run_dir=tmp_path / "run")
    agrees(result, calls)
    assert result.ledger.resamples == 1 and result.ledger.decisions <= 3 * 9  # not 3 * 501
    made = times(calls)
    # Quick now, it is still judged as it was before.
    monkeypatch.setattr(time, "sleep", lambda _: None)
    again = run(metric, queries=8, run_dir=tmp_path / "run", resume=True)
    assert times(calls) == made and again.comparison == result.comparison
