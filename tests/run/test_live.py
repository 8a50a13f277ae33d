"""Where a run stands, told from its events."""

import io
import math

import pytest

from metricopt.run.live import LiveView, Standing
from metricopt.run.progress import Progress

START = {"event": "start", "metric": {"name": "f1", "goal": "max"}, "settings": {"queries": 10}}


def query(index, value, **more):
    return {"event": "query", "index": index, "stage": "value", "cost": None, "value": value, **more}


def standing(*events):
    found = Standing()
    for event in events:
        found.hear(event)
    return found


@pytest.mark.parametrize(("goal", "best"), [("max", 0.8), ("min", 0.5)])
def test_the_best_answer_follows_the_goal(goal, best):
    start = {**START, "metric": {"name": "m", "goal": goal}}
    found = standing(start, query(0, 0.6), query(1, 0.8), query(2, 0.5))
    assert (found.first, found.best, found.made) == (0.6, best, 3)


def test_failures_count_and_are_no_answers():
    found = standing(START, query(0, None), query(1, math.nan), query(2, 0.5))
    assert (found.failed, found.made, found.first) == (2, 3, 0.5)
    assert "2 failed" in str(found)


def test_a_point_that_breaks_a_constraint_is_not_the_best():
    assert standing(START, query(0, 0.5), query(1, 0.9, violation=0.1)).best == 0.5


def test_a_resumed_run_goes_on_counting():
    assert standing(START, {"event": "resume", "answered": 7}, query(7, 0.5)).made == 8


def test_health_is_the_rank_correlation_of_all_forecasts():
    forecast = {"event": "forecast", "predicted": [0.1, 0.2, 0.3], "true": [0.3, 0.4, 0.5]}
    more = {"event": "forecast", "predicted": [0.4, 0.5, 0.6], "true": [0.6, 0.7, math.nan]}
    found = standing(START, forecast)
    assert math.isnan(found.health)  # three pairs say nothing
    found.hear(more)
    assert found.health == pytest.approx(1.0)


def test_a_value_network_says_its_own_health():
    assert "value function +0.40" in str(standing(START, {"event": "health", "rank_correlation": 0.4}))


def test_the_line_says_queries_best_health_and_time_left():
    clock, stream = iter([0.0, 10.0, 20.0]), io.StringIO()
    view = LiveView(Progress("search", stream=stream, clock=lambda: next(clock)))
    view(START)
    view({"event": "health", "rank_correlation": 0.4})
    view(query(0, 0.5))
    view(query(1, 0.75))
    last = stream.getvalue().splitlines()[-1]
    assert last == "search: 2/10, value, best f1 0.7500 (first 0.5000), value function +0.40, 80 s left"
