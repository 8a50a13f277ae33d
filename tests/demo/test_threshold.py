"""The rival: what tuning thresholds and biases finds, against finer and blinder searches."""

import pytest
import torch
from sklearn.metrics import f1_score

import metricopt as mo
from metricopt.demo.threshold import tuned
from metricopt.metrics import as_metric


def classes(count, *, seed=0):
    draw = torch.Generator().manual_seed(seed)
    targets = torch.randint(count, (2000,), generator=draw)
    outputs = torch.nn.functional.one_hot(targets, count) + torch.randn(2000, count, generator=draw)
    return outputs, targets


def test_a_threshold_is_as_good_as_the_best_of_all_thresholds():
    draw = torch.Generator().manual_seed(0)
    targets = (torch.rand(300, generator=draw) < 0.2).long()
    outputs = (targets + torch.randn(300, generator=draw) - 1.5)[:, None]
    best = max(f1_score(targets, outputs[:, 0] > cut) for cut in outputs[:, 0].tolist())
    found = tuned(as_metric("f1"), outputs, targets, calls=300, seed=0)
    assert found.best[-1] == pytest.approx(best, abs=0.005)
    assert f1_score(targets, outputs[:, 0] + found.bias > 0) == pytest.approx(found.best[-1])


@pytest.mark.parametrize("calls", [10, 37, 200])
@pytest.mark.parametrize("outputs", [1, 4])
def test_it_asks_as_often_as_it_may_and_never_gets_worse(calls, outputs):
    asked = []

    def counted(truth, predicted):
        asked.append(1)
        return f1_score(truth, predicted, average="macro")

    scores, targets = classes(max(outputs, 2))
    found = tuned(
        mo.Metric(counted, on="labels", goal="max"), scores[:, :outputs], targets.clamp(max=max(1, outputs - 1)),
        calls=calls, seed=0,
    )  # fmt: skip
    assert len(asked) == len(found.best) == calls
    assert found.best == sorted(found.best)


def test_biases_undo_an_offset_of_the_classes():
    outputs, targets = classes(4)
    whole = float(as_metric("macro_f1").value(outputs, targets))
    spoilt = outputs + torch.tensor([2.0, 0.0, -1.5, 0.5])
    found = tuned(as_metric("macro_f1"), spoilt, targets, calls=200, seed=0)
    assert found.best[0] < whole - 0.1
    assert found.best[-1] > whole - 0.005


def test_a_metric_to_minimise_goes_down():
    outputs, targets = classes(3)
    found = tuned(as_metric("mcr"), outputs + torch.tensor([3.0, 0.0, 0.0]), targets, calls=60, seed=0)
    assert found.best[-1] < found.best[0] - 0.1
