"""`optimize` with several workers: as many calls, each answer counted once, whoever dies; resumed, the same again."""

import contextlib
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import metricopt as mo
from metricopt.core.errors import BudgetError, MetricFailureWarning, WorkerError
from metricopt.crossfit import EFFORTS
from metricopt.run.events import read_events

X = torch.randn(900, 4, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] + 0.3 * X[:, 1] > 0.8).long()
TRAIN, VAL = (X[:300], Y[:300]), (X[300:], Y[300:])
FEW = mo.Recipe(start_steps=20, candidates=40, rows=200)


def network(outputs=1):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, outputs))


def accuracy(truth, labels):
    return float((truth == labels).mean())


class Counted:
    """Accuracy that leaves a line for every call, from whichever process."""

    def __init__(self, path: Path, *, seconds: float = 0.0, dies: int | None = None) -> None:
        self.path, self.seconds, self.dies = path, seconds, dies

    def __call__(self, truth, labels):
        with self.path.open("a") as file:
            file.write("x")
        if self.dies is not None and len(self.path.read_text()) >= self.dies:
            with contextlib.suppress(FileExistsError):
                self.path.with_suffix(".death").touch(exist_ok=False)  # one of them only
                os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.seconds)
        return accuracy(truth, labels)

    @property
    def calls(self):
        return len(self.path.read_text())


def searched(metric, **options):
    options = {"recipe": FEW, "queries": 30, "learn_from_val": False, "val": VAL, **options}
    if not isinstance(metric, mo.Metric):
        metric = mo.Metric(metric, on="labels", goal="max", name="accuracy", costly=True)
    return mo.optimize(network(), metric=metric, train=TRAIN, **options)


@pytest.mark.parametrize("outputs", [1, 3])
def test_workers_make_as_many_calls_as_are_counted_and_find_as_much(tmp_path, outputs):
    function = Counted(tmp_path / "calls")
    metric = mo.Metric(function, on="labels", goal="max", name="accuracy", costly=True)
    result = mo.optimize(
        network(outputs), metric=metric, train=TRAIN, val=VAL, queries=40, learn_from_val=False, recipe=FEW, workers=4
    )
    assert result.ledger.used == len(result.ledger.queries) == 40
    assert function.calls == result.ledger.calls
    assert result.accepted and result.comparison.after > result.comparison.before + 0.03


def test_an_executor_asks_as_often(tmp_path):
    function = Counted(tmp_path / "calls")
    with ThreadPoolExecutor(3) as pool:
        result = searched(function, workers=3, executor=pool)
    assert function.calls == result.ledger.calls and result.ledger.used == 30


def test_a_worker_killed_in_the_middle_loses_no_answer_and_its_call_is_counted(tmp_path):
    function = Counted(tmp_path / "calls", dies=17)
    result = searched(function, workers=3, run_dir=tmp_path / "run")
    assert result.ledger.used == len(result.ledger.queries) == 30 and not result.ledger.failures
    assert result.ledger.extra == 1 and function.calls == result.ledger.calls
    numbers = [event["index"] for event in read_events(tmp_path / "run" / "events.jsonl") if event["event"] == "query"]
    assert sorted(numbers) == list(range(30))


class StoppedError(Exception):
    pass


def test_a_run_that_was_stopped_goes_the_same_way_again_and_pays_for_no_answer_twice(tmp_path):
    def until(count):
        def watch(event):
            if event["event"] == "query" and event["index"] == count:
                raise StoppedError

        return watch

    function = Counted(tmp_path / "calls", seconds=0.01)
    options = {"workers": 3, "run_dir": tmp_path / "run"}
    with pytest.raises(StoppedError):
        searched(function, watch=[until(15)], **options)
    events = read_events(tmp_path / "run" / "events.jsonl")
    before = [event for event in events if event["event"] == "query"]
    result = searched(function, resume=True, **options)
    after = [event for event in read_events(tmp_path / "run" / "events.jsonl") if event["event"] == "query"]
    assert after[: len(before)] == before and len(after) == 30 == result.ledger.used
    assert function.calls <= result.ledger.calls + 3  # those under way when it was stopped


def test_constraints_are_asked_by_the_workers_too(tmp_path):
    counted, share = Counted(tmp_path / "calls"), Counted(tmp_path / "share")
    keep = mo.Constraint(mo.Metric(share, on="labels", goal="max", name="share", costly=True), at_least=0.5)
    result = searched(counted, workers=3, keep=[keep])
    assert counted.calls + share.calls == result.ledger.calls
    assert all(len(query.kept) == 1 for query in result.ledger.queries)


def test_a_metric_of_the_model_is_asked_by_workers_that_hold_the_model():
    def process(net, inputs, targets):
        return accuracy(targets.numpy(), (net(inputs)[:, 0] > 0).long().numpy())

    metric = mo.Metric(process, on="model", goal="max")
    result = searched(metric, workers=3)
    assert result.accepted and result.ledger.used == 30
    value = accuracy(VAL[1].numpy(), (result.model(VAL[0])[:, 0] > 0).long().numpy())
    assert value > accuracy(VAL[1].numpy(), (network()(VAL[0])[:, 0] > 0).long().numpy())


def test_finetuned_weights_are_chosen_by_workers(tmp_path):
    function = Counted(tmp_path / "calls")
    metric = mo.Metric(function, on="labels", goal="max", name="accuracy", costly=True)
    settings = replace(EFFORTS["quick"], seconds=2.0)
    result = mo.optimize(network(3), metric=metric, train=TRAIN, val=VAL, queries=30, effort=settings, workers=4)
    assert function.calls == result.ledger.calls and result.accepted


def test_failed_answers_of_workers_count_and_are_told(tmp_path):
    original = tmp_path / "original"

    def sometimes(truth, labels):
        if len(truth) == 360 and not original.exists():  # the first call is about the original
            original.write_text(str(labels.sum()))
        if len(truth) == 360 and labels.sum() % 5 == (int(original.read_text()) + 1) % 5:
            raise ArithmeticError("no")
        return accuracy(truth, labels)

    with pytest.warns(MetricFailureWarning, match="ArithmeticError: no"):
        asked, held_out = ([part[:360] for part in VAL], [part[360:] for part in VAL])
        result = searched(sometimes, workers=3, val=tuple(asked), holdout=tuple(held_out))
    assert 0 < result.ledger.failures < len(result.ledger.queries) <= 30


@pytest.mark.parametrize("workers", [0, 2.5, True])
def test_a_number_of_workers_that_is_none_is_refused(workers):
    with pytest.raises(BudgetError, match=f"workers is {workers}; expected a whole number, at least 1"):
        searched(accuracy, workers=workers)


def test_an_executor_needs_to_be_told_how_many(tmp_path):
    with ThreadPoolExecutor(1) as pool, pytest.raises(BudgetError, match="an executor was given with workers=1"):
        searched(accuracy, executor=pool)


def test_an_executor_that_is_shut_down_costs_no_query(tmp_path):
    function, pool = Counted(tmp_path / "calls"), ThreadPoolExecutor(1)
    function.path.touch()
    pool.shutdown()
    with pytest.raises(WorkerError, match="expected one that is running"):
        searched(function, workers=2, executor=pool)
    assert function.calls == 0
