"""However the checkpoint of a training is damaged, it goes on or is refused in one sentence."""

import random
import shutil
from pathlib import Path

import pytest
import torch
from tests.faults.mutations import ROUNDS, mutate
from torch import nn

from metricopt.core.errors import FileFormatError
from metricopt.data.dataset import Examples
from metricopt.losses import cross_entropy
from metricopt_lab.problems.train_images import Plan, train_images

DATA = Examples(torch.rand(20, 1, 4, 4, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 2)
PLAN = Plan(epochs=2, batch_size=10, lr=0.1, augment=False)


def trained(folder: Path, **settings: bool) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    train_images(net, DATA, DATA, PLAN, loss=cross_entropy, folder=folder, **settings)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("training")
    trained(folder)
    return folder


def test_a_mutated_checkpoint_goes_on_or_is_refused_in_one_sentence(saved, tmp_path):
    refused = 0
    for turn in range(ROUNDS):
        draw, folder = random.Random(f"training {turn}"), tmp_path / "copy"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(saved, folder)
        mutate(folder, draw.choice(sorted(folder.iterdir())), draw)
        try:
            trained(folder, resume=True)
        except FileFormatError as error:
            refused += 1
            assert "\n" not in str(error) and 20 < len(str(error)) < 2000, f"mutation {turn}"
        except Exception as error:
            raise AssertionError(f"mutation {turn} brought out {error!r}") from error
    assert refused > ROUNDS / 20
