"""Meta-training that is killed with SIGKILL at random moments and resumed: prints kills and weights, as JSON.

A script of its own: it forks, and a process that has run tests must not.
Usage: killed_meta_training.py FOLDER KILLS SEED.
"""

import hashlib
import json
import random
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import torch
from tests.faults.killing import finished

from metricopt.core.errors import FlatValueWarning
from metricopt.core.files import load
from metricopt.paper.learned.meta_training import meta_train
from metricopt.paper.learned.settings import MetaTraining
from metricopt.paper.training import Training
from metricopt.task.oracle import Oracle
from metricopt.task.quadratic import QuadraticTask

SETTINGS = MetaTraining(iterations=8, tasks=3, steps=8, warm_up=2, metric_every=4, value=Training(steps=10, members=2))


def run(folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatValueWarning)  # it is, at first
        meta_train(Oracle(QuadraticTask(dim=3)), SETTINGS, seed=3, folder=folder)


def account(folder: Path) -> dict:
    """Everything that must not depend on kills: weights, Adam, value function with its memory, and history."""
    saved = load(folder, "meta-training", version=1)
    digest = hashlib.sha256()
    for name in sorted(saved.tensors):
        digest.update(saved.tensors[name].numpy().tobytes())
    return {"tensors": digest.hexdigest(), "names": sorted(saved.tensors), "history": saved.facts["history"]}


def main(folder: Path, kills: int, seed: int) -> None:
    torch.set_num_threads(1)
    run(folder / "warm-up")  # children then need not import what torch imports late
    began = time.monotonic()
    assert finished(partial(run, folder / "whole"), 120.0)
    duration, moments, runs = time.monotonic() - began, random.Random(seed), []
    while sum(one["kills"] for one in runs) < kills:
        broken, killed = folder / f"broken {len(runs)}", 0
        while not finished(partial(run, broken), moments.uniform(0.0, duration)):
            killed += 1
        runs.append({"kills": killed, "account": account(broken)})
    print(json.dumps({"expected": account(folder / "whole"), "runs": runs}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
