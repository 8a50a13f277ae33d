"""Pre-training: it learns, repeats itself bit for bit, leaves torch's random state alone, and caches what it should."""

import pytest
import torch
from torch import nn

from metricopt.core.errors import DataError, FileFormatError
from metricopt.core.seeding import stream
from metricopt.data.dataset import Examples
from metricopt.losses import class_balanced, cross_entropy
from metricopt_lab.networks import TabularMLP
from metricopt_lab.problems import pretrain


@pytest.fixture(scope="module")
def rings():
    inputs = torch.randn(1200, 2, generator=stream(0, "rings"))
    return Examples(inputs, (inputs.norm(dim=1) > 1.5).long())  # about a third are outside


def untrained(outputs=1):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return TabularMLP(2, outputs=outputs, hidden=(20, 10))


def weights(net):
    return torch.cat([tensor.double().reshape(-1) for tensor in net.state_dict().values()])


def share_right(net, data):
    return float(((net(data.inputs) > 0) == data.targets).double().mean())


@pytest.mark.parametrize("sampling", ["plain", "balanced"])
def test_it_learns_what_no_linear_model_can(rings, sampling):
    net = pretrain(untrained(), rings, epochs=15, batch_size=64, sampling=sampling)
    assert share_right(net, rings) > 0.9
    assert not net.training


def test_balanced_batches_make_the_rare_class_likelier():
    inputs = torch.randn(2000, 2, generator=stream(0, "overlap"))
    rare = torch.rand(2000, generator=stream(1, "overlap")) < 0.1
    data = Examples(inputs, rare.long())  # nothing to learn but the share
    probability = {
        sampling: float(pretrain(untrained(), data, batch_size=64, sampling=sampling)(inputs).sigmoid().mean().detach())
        for sampling in ("plain", "balanced")
    }
    assert probability["plain"] == pytest.approx(0.1, abs=0.04)
    assert probability["balanced"] == pytest.approx(0.5, abs=0.08)


def test_twice_the_same_seed_gives_the_same_bits_and_another_seed_others(rings):
    first, second, other = (weights(pretrain(untrained(), rings, epochs=2, seed=seed)) for seed in (0, 0, 1))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_torchs_global_random_state_is_untouched(rings):
    before = torch.random.get_rng_state()
    pretrain(untrained(), rings, epochs=1)
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_cached_network_is_the_trained_one_and_is_not_trained_again(rings, tmp_path):
    epochs = []
    runs = [
        weights(pretrain(untrained(), rings, epochs=2, cache=tmp_path, progress=lambda e, _: epochs.append(e)))
        for _ in range(2)
    ]
    assert torch.equal(*runs)
    assert epochs == [1, 2]
    assert torch.equal(runs[0], weights(pretrain(untrained(), rings, epochs=2)))


def test_whatever_changes_the_weights_changes_the_key(rings, tmp_path):
    other_data = Examples(rings.inputs, 1 - rings.targets)
    less_dropout = TabularMLP(2, hidden=(20, 10), dropout=0.0)
    less_dropout.load_state_dict(untrained().state_dict())
    pretrain(untrained(), rings, epochs=1, cache=tmp_path)
    pretrain(untrained(), other_data, epochs=1, cache=tmp_path)
    pretrain(less_dropout, rings, epochs=1, cache=tmp_path)
    pretrain(untrained(), rings, epochs=1, cache=tmp_path, loss=class_balanced)
    for setting in ({"epochs": 2}, {"seed": 1}, {"lr": 0.02}, {"batch_size": 100}, {"sampling": "balanced"}):
        pretrain(untrained(), rings, cache=tmp_path, **({"epochs": 1} | setting))
    assert len(list(tmp_path.iterdir())) == 9


def test_a_damaged_file_is_named(rings, tmp_path):
    pretrain(untrained(), rings, epochs=1, cache=tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(b"half")
    with pytest.raises(FileFormatError, match=rf"{path.name} is damaged .* delete the file to train again"):
        pretrain(untrained(), rings, epochs=1, cache=tmp_path)


def test_a_loss_without_a_name_cannot_be_cached(rings, tmp_path):
    with pytest.raises(DataError, match="has no name of its own"):
        pretrain(nn.Linear(2, 2), rings, loss=lambda o, t: cross_entropy(o, t), cache=tmp_path)
