"""Table 4's verdicts, from made-up records, and what it takes to run it."""

import json
import os
from pathlib import Path

import pytest
import torch

from metricopt.core.errors import DataError
from metricopt.data.dataset import Examples
from metricopt_lab.data.cifar10 import Cifar10Split
from metricopt_lab.problems.image_sets import image_set
from metricopt_lab.problems.pretrained import SHIPPED
from metricopt_lab.problems.train_images import accuracy
from metricopt_lab.tables.table4.methods import METHODS
from metricopt_lab.tables.table4.scales import network
from metricopt_lab.tables.table4.text import table4_text


def record(method, seed, gain):
    return {
        "method": method, "seed": seed, "gain": gain, "after": 0.5 + gain, "top5_after": 0.8, "scale": "small",
        "resampled_gains": [gain - 0.0001, gain + 0.0001], "queries": 5, "meta_queries": 255, "problem": "made up",
        "test_standard_error": 0.008,
    }  # fmt: skip


def test_each_claim_gets_one_verdict():
    gains = dict.fromkeys(METHODS, 0.0) | {
        "metricopt_cifar10": 0.02,
        "metricopt": 0.03,
        "second_run": 0.04,
        "third_run": 0.041,
    }
    text = table4_text([record(method, seed, gain) for seed in range(3) for method, gain in gains.items()])
    lines = [line for line in text.splitlines() if "confirmed |" in line.replace("  ", " ") or "confirmed" in line]
    assert sum(" confirmed" in line and "not confirmed" not in line for line in lines if line.startswith("|")) == 6
    assert "| transferred from the smaller network, it beats RMSProp with cross-entropy" in text
    assert "scale small (not the paper's)" in text


def test_to_beat_a_loss_that_loses_is_to_beat_the_pre_trained_network():
    gains = dict.fromkeys(METHODS, 0.0) | {"rmsprop": -0.02}
    text = table4_text([record(method, seed, gain) for seed in range(3) for method, gain in gains.items()])
    line = next(line for line in text.splitlines() if "from CIFAR-10, it beats RMSProp" in line)
    assert "+0.00 ± 0.00 (over the pre-trained)" in line
    assert "not confirmed" in line


def test_a_network_that_was_not_trained_is_asked_for_with_the_command_that_makes_it(tmp_path, monkeypatch):
    monkeypatch.setenv("METRICOPT_CACHE", str(tmp_path))
    one = Examples(torch.zeros(1, 3, 32, 32), torch.zeros(1, dtype=torch.long))
    with pytest.raises(DataError, match=r"metricopt pretrain resnet18 --data cifar10 --out"):
        network("resnet18", "cifar10", "small", Cifar10Split(one, one, one))


@pytest.mark.parametrize(
    ("model", "data"), [("nasnet_a", "tinyimagenet"), ("nasnet_a", "cifar10"), ("resnet18", "tinyimagenet")]
)
def test_networks_that_come_with_the_package_have_the_accuracy_that_their_files_tell(
    model, data, tmp_path, monkeypatch
):
    folder = Path(os.environ.get("METRICOPT_DATA", "nowhere"))
    if not any(folder.glob(f"{data}/{data}*.npz")):
        pytest.skip(f"no {data} in the folder METRICOPT_DATA")
    monkeypatch.setenv("METRICOPT_CACHE", str(tmp_path))
    images = image_set(data)
    net = network(model, data, "small", images)
    facts = json.loads((SHIPPED / f"{model}_{data}" / "network.json").read_text())["facts"]
    assert accuracy(net, images.test) == pytest.approx(facts["test_accuracy"], abs=0.001)  # other processors round
