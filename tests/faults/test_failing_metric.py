import math
import random
import threading
import time

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from torch import nn

import metricopt as mo
from metricopt.core.errors import MetricError, MetricFailureWarning
from metricopt.losses import cross_entropy

DRAW = torch.Generator().manual_seed(0)
X = torch.randn(2400, 4, generator=DRAW)
Y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * torch.randn(2400, generator=DRAW) > 1).long()
FAST = mo.Recipe(start_steps=40, candidates=80)


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 1))


def optimised(metric, *, queries, max_failures=None, ledger=None):
    return mo.optimize(
        net(),
        loss=cross_entropy,
        metric=metric,
        train=(X[:600], Y[:600]),
        val=(X[600:], Y[600:]),
        queries=queries,
        recipe=FAST,
        max_failures=max_failures,
        ledger=ledger,
    )


class Faulty:
    """F1 that raises, gives NaN or hangs now and then, and counts how often it was called."""

    def __init__(self, *, raises=0.0, nan=0.0, hangs=0.0):
        self.raises, self.nan, self.hangs, self.calls = raises, nan, hangs, 0
        self._random, self._lock = random.Random(0), threading.Lock()

    def __call__(self, y_true, labels):
        with self._lock:
            self.calls += 1
            fate = self._random.random()
        if fate < self.raises:
            raise OSError("the server is busy")
        if fate < self.raises + self.nan:
            return math.nan
        if fate < self.raises + self.nan + self.hangs:
            time.sleep(3.0)
        return f1(y_true, labels)


def f1(y_true: np.ndarray, labels: np.ndarray) -> float:
    return 2 * int((y_true * labels).sum()) / max(int(y_true.sum() + labels.sum()), 1)


def test_a_metric_that_raises_gives_nan_or_hangs_is_survived_counted_and_as_good_as_a_sound_one():
    clean = optimised(mo.Metric(f1, on="labels", goal="max"), queries=500)
    faulty = Faulty(raises=0.10, nan=0.05, hangs=0.02)
    metric = mo.Metric(faulty, on="labels", goal="max", time_limit=0.05, name="faulty")
    with pytest.warns(MetricFailureWarning, match="'faulty'") as warned:
        result = optimised(metric, queries=500, max_failures=200)
    assert result.ledger.used == len(result.ledger.queries) == 500 and not result.stopped
    assert faulty.calls == result.ledger.calls
    assert 0.12 < result.ledger.failures / 500 < 0.22
    text = " ".join(str(each.message) for each in warned)
    assert all(part in text for part in ("the server is busy", "gave nan", "no answer within 0.05 s"))
    # Half the width of an interval that the acceptance itself finds: both are what the noise of the rows allows.
    low, high = clean.comparison.interval
    assert result.accepted and result.comparison.after > clean.comparison.after - (high - low) / 2


def test_a_metric_that_fails_too_often_stops_the_search_and_what_was_found_is_judged():
    faulty = Faulty(raises=0.5)
    metric = mo.Metric(faulty, on="labels", goal="max", name="broken")
    with pytest.warns(MetricFailureWarning) as warned:
        result = optimised(metric, queries=40)
    assert any(str(each.message) == f"the search ended early: {result.stopped}" for each in warned)
    assert 11 <= result.ledger.failures < 16 and result.ledger.used < 40
    assert "more than the 10 allowed" in result.stopped and "server is busy" in result.stopped
    assert result.stopped in str(result)
    assert result.comparison.examples == 720 and result.to_dict()["stopped"] == result.stopped


def test_a_metric_that_fails_on_the_original_model_twice_is_an_error_after_two_queries():
    ledger = mo.QueryLedger()
    with pytest.warns(MetricFailureWarning), pytest.raises(MetricError, match=r"phi = 0.*2 times of 2.*server is busy"):
        optimised(mo.Metric(Faulty(raises=1.0), on="labels", goal="max"), queries=40, ledger=ledger)
    assert ledger.used == 2


def test_a_metric_that_fails_on_the_original_model_once_is_asked_again():
    answers = iter([math.nan])
    metric = mo.Metric(lambda y, p: next(answers, None) or f1_score(y, p), on="labels", goal="max", name="shaky")
    with pytest.warns(MetricFailureWarning, match="shaky"):
        result = optimised(metric, queries=30)
    assert [query.stage for query in result.ledger.queries][:2] == ["start", "retry"]
    assert result.ledger.failures == 1 and result.ledger.used == 30


def test_an_answer_that_comes_late_is_a_failure_and_is_never_taken_for_the_next_one():
    naps = iter([0.2])

    def tenths(y_true, _):
        time.sleep(next(naps, 0.0))
        return len(y_true) / 10

    metric = mo.Metric(tenths, on="labels", goal="max", time_limit=0.1, name="slow")
    with pytest.raises(MetricError, match=r"'slow'.*no answer within 0.1 s"):
        metric.value(torch.ones(9), torch.ones(9, dtype=torch.long))
    assert metric.value(torch.ones(3), torch.ones(3, dtype=torch.long)) == 0.3
    time.sleep(0.15)
    assert metric.value(torch.ones(4), torch.ones(4, dtype=torch.long)) == 0.4


def test_a_metric_on_the_model_may_hang_too():
    hangs = mo.Metric(lambda *_: time.sleep(2.0), on="model", goal="max", time_limit=0.05, name="asleep")
    with pytest.raises(MetricError, match=r"'asleep'.*no answer within"):
        hangs.value_of_model(nn.Identity(), torch.zeros(2), torch.zeros(2))
