"""Runs of a small problem that are killed with SIGKILL at random moments and resumed: prints what came out, as JSON.

A script of its own: it forks, and a process that has run tests must not. Usage: killed_runs.py FOLDER KILLS SEED.
"""

import hashlib
import json
import random
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from tests.faults.killing import PATIENCE, finished, killed_until_done
from torch import nn

import metricopt as mo
from metricopt.core.plain import packed
from metricopt.losses import cross_entropy
from metricopt.run.events import NAME, read_events

QUERIES, ROWS = 60, 300


def problem():
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(1000, 4, generator=draw)
    y = (x[:, 0] + x[:, 1] * x[:, 2] + 0.5 * torch.randn(1000, generator=draw) > 1).long()
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 1)), x, y


def counted(calls: Path):
    """F1 by plain counts that writes down every call about the search rows, and takes its time."""

    def f1(y_true: np.ndarray, labels: np.ndarray) -> float:
        if len(y_true) == ROWS:
            with calls.open("a") as file:
                file.write(hashlib.sha256(labels.tobytes()).hexdigest()[:16] + "\n")
            time.sleep(0.004)
        true = int((y_true * labels).sum())
        return 2 * true / max(int(y_true.sum() + labels.sum()), 1)

    return mo.Metric(f1, on="labels", goal="max", costly=True)


def run(folder: Path, kind: str) -> None:
    net, x, y = problem()
    metric = counted(folder / "calls") if kind == "one by one" else "f1"
    mo.optimize(
        net,
        loss=cross_entropy,
        metric=metric,
        train=(x[:500], y[:500]),
        val=(x[500:], y[500:]),
        queries=QUERIES,
        recipe=mo.Recipe(start_steps=30, candidates=60),
        run_dir=folder,
        resume=True,
    )


def lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def answered(folder: Path) -> int:
    """Answers about the search rows: queries, and the original asked about once more."""
    log = folder / NAME
    again = "the original again"
    events = read_events(log) if log.exists() else []
    return sum(event["event"] == "query" or event.get("key") == again for event in events)


def account(folder: Path, kind: str) -> dict:
    """Everything that must not depend on kills."""
    net, _, _ = problem()
    metric = counted(folder / "calls") if kind == "one by one" else "f1"
    result = mo.load_result(folder, net, metric)
    events = read_events(folder / NAME)
    numbers = {key: value for key, value in result.to_dict().items() if key != "seconds"}
    kinds = ("query", "forecast", "incumbent", "accepted")
    history = [{k: v for k, v in event.items() if k != "time"} for event in events if event["event"] in kinds]
    return {"phi": packed(result.proposal), "kept": packed(result.model.phi), "numbers": numbers, "history": history}


def killed(folder: Path, kind: str, moments: random.Random, duration: float, most: int) -> dict:
    """One run that is killed at random moments, and what that cost."""
    wasted = []

    def waste() -> None:
        # Calls whose answer was lost in all: a kill may swallow the one that was under way, and no other.
        wasted.append(lines(folder / "calls") - answered(folder))

    kills = killed_until_done(partial(run, folder, kind), moments, duration, most=most, then=waste)
    return {"kind": kind, "kills": kills, "wasted": wasted, "calls": lines(folder / "calls")}


def main(folder: Path, kills: int, seed: int) -> None:
    torch.set_num_threads(1)
    moments, runs = random.Random(seed), []
    for kind in ("one by one", "in batches"):
        whole = folder / kind
        run(folder / f"warm-up {kind}", kind)  # children then need not import what torch imports late
        began = time.monotonic()
        assert finished(partial(run, whole, kind), PATIENCE)
        duration, expected = time.monotonic() - began, account(whole, kind)
        while left := kills // 2 - sum(one["kills"] for one in runs if one["kind"] == kind):
            broken = folder / f"{kind} {len(runs)}"
            runs.append(killed(broken, kind, moments, duration, left))
            found = account(broken, kind)
            runs[-1]["different"] = [key for key in expected if found[key] != expected[key]]
    print(json.dumps(runs))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
