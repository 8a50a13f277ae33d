"""Meta-training that is killed with SIGKILL at random moments and resumed: prints kills and weights, as JSON.

A script of its own: it forks, and a process that has run tests must not.
Usage: killed_meta_training.py FOLDER KILLS SEED.
"""

import hashlib
import warnings
from pathlib import Path

from tests.faults.killing import kill_and_resume

from metricopt.core.errors import FlatValueWarning
from metricopt.core.files import load
from metricopt.paper.learned.checkpoint import KIND, VERSION
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
    saved = load(folder, KIND, version=VERSION)
    digest = hashlib.sha256()
    for name in sorted(saved.tensors):
        digest.update(saved.tensors[name].numpy().tobytes())
    return {"tensors": digest.hexdigest(), "names": sorted(saved.tensors), "history": saved.facts["history"]}


if __name__ == "__main__":
    kill_and_resume(run, account)
