"""A network that works in place, a metric that writes where it can, changes settings and leaves: all is as it was."""

import os
from pathlib import Path

import pytest
import torch
from tests.faults.counted import X, Y, network
from torch import nn

import metricopt as mo

HELD = torch.randn(120, 4, generator=torch.Generator().manual_seed(7))
SETTINGS = {"adapter": {"recipe": mo.Recipe(start_steps=12, candidates=40)}, "weights": {"effort": "quick"}}


class Shifted(nn.Module):
    """What it computes twice from the same rows differs, if it works in place and they are not copies."""

    def __init__(self, *, in_place: bool) -> None:
        super().__init__()
        self.body, self.in_place = network(), in_place

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.sub_(0.3) if self.in_place else x - 0.3
        return self.body(x)


def accuracy(truth, labels):
    return float((truth == labels).mean())


def rude(truth, labels):
    answer = accuracy(truth, labels)
    truth[:], labels[:] = 0, 0
    torch.set_grad_enabled(False)
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(len(truth))
    os.chdir("/")
    return answer


def found(function, *, in_place, way, run_dir=None):
    data = [tensor.clone() for tensor in (X[:160], Y[:160], X[160:], Y[160:], HELD, (HELD[:, 0] > 0.8).long())]
    before = [tensor.clone() for tensor in data]
    net, state, folder = Shifted(in_place=in_place), torch.get_rng_state(), Path.cwd()
    result = mo.optimize(
        net,
        loss=nn.functional.cross_entropy,
        metric=mo.Metric(function, on="labels", goal="max", name="accuracy"),
        train=tuple(data[:2]),
        val=tuple(data[2:4]),
        holdout=tuple(data[4:]),
        queries=10,
        run_dir=run_dir,
        **SETTINGS[way],
    )
    tested = result.evaluate(tuple(data[4:]))
    assert all(torch.equal(one, other) for one, other in zip(data, before, strict=True)), "the user's data are theirs"
    assert torch.is_grad_enabled() and torch.get_default_dtype() == torch.float32
    assert torch.equal(torch.get_rng_state(), state) and Path.cwd() == folder
    return result, tested


@pytest.mark.parametrize("way", SETTINGS)
def test_a_rude_network_and_metric_change_nothing_and_find_what_polite_ones_find(way, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one, tested = found(rude, in_place=True, way=way, run_dir="run")
    assert {"events.jsonl", "result.json"} <= {path.name for path in (tmp_path / "run").iterdir()}

    other, expected = found(accuracy, in_place=False, way=way)
    assert torch.equal(one.model.phi, other.model.phi) and tested == expected
    timeless = [{key: value for key, value in each.to_dict().items() if key != "seconds"} for each in (one, other)]
    assert timeless[0] == timeless[1]
    merged, x = one.merge(), HELD.clone()
    torch.testing.assert_close(merged(x), one.model(HELD.clone()))


def test_a_merged_network_is_ready_to_predict_whatever_the_mode_of_the_one_given(tmp_path):
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).train()
    result = mo.optimize(
        net, metric="accuracy", train=(X[:160], Y[:160]), val=(X[160:], Y[160:]), queries=5, **SETTINGS["adapter"]
    )
    assert net.training and not any(module.training for module in result.merge().modules())
    torch.testing.assert_close(result.merge()(X), result.model(X))
