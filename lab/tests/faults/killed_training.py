"""A small training that is killed with SIGKILL at random moments and resumed: prints kills and weights, as JSON.

A script of its own: it forks, and a process that has run tests must not. Usage: killed_training.py FOLDER KILLS SEED.
"""

import hashlib
import json
from pathlib import Path

import torch
from tests.faults.killing import kill_and_resume

from metricopt.data.dataset import Examples
from metricopt_lab.data import Cifar10Split
from metricopt_lab.problems.pretrain_images import pretrain_images
from metricopt_lab.problems.pretrained import load_network
from metricopt_lab.problems.train_images import Plan

PLAN = Plan(epochs=4, batch_size=4, lr=0.02, augment=True)


def pictures(count: int, seed: int) -> Examples:
    draw = torch.Generator().manual_seed(seed)
    return Examples(torch.randn(count, 3, 32, 32, generator=draw), torch.arange(count) % 10)


def run(folder: Path) -> None:
    data = Cifar10Split(pictures(20, 0), pictures(10, 1), pictures(10, 2))
    pretrain_images("small_convnet", data, PLAN, folder=folder, resume=True)


def account(folder: Path) -> dict:
    """Everything that must not depend on kills."""
    facts = json.loads((folder / "network.json").read_text())["facts"]
    digest = hashlib.sha256()
    for tensor in load_network(folder).state_dict().values():
        digest.update(tensor.numpy().tobytes())
    for timed in (facts, *facts["history"]):
        del timed["seconds"]
    return {"weights": digest.hexdigest(), **facts}


if __name__ == "__main__":
    kill_and_resume(run, account)
