"""Eight workers and a metric that sleeps two seconds: how near a run comes to the time that the calls alone take.

`python tools/measure_workers.py forked executor ray` appends a line each to results/workers.jsonl. Seconds count from
when the workers are there, as the ideal does: calls of the metric times two seconds, shared by eight.
"""

import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch
from torch import nn

import metricopt as mo

WORKERS, SLEEP, QUERIES = 8, 2.0, 300
RECORDS = Path(__file__).parents[1] / "results" / "workers.jsonl"


def sleeps(truth, labels):
    """Balanced accuracy after a nap."""
    time.sleep(SLEEP)
    return float(0.5 * ((labels == 1)[truth == 1].mean() + (labels == 0)[truth == 0].mean()))


def measured(kind: str) -> dict[str, object]:
    """One run with one kind of workers."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(1500, 4, generator=draw)
    y = (x[:, 0] + 0.5 * torch.randn(1500, generator=draw) > 1).long()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    metric = mo.Metric(sleeps, on="labels", goal="max", costly=True)
    began: list[float] = []

    def watch(event):
        if event["event"] == "plan" and not began:
            began.append(time.perf_counter())

    executor = {"forked": None, "executor": ProcessPoolExecutor(WORKERS), "ray": "ray"}[kind]
    asked = time.perf_counter()
    result = mo.optimize(
        net,
        metric=metric,
        train=(x[:500], y[:500]),
        val=(x[500:], y[500:]),
        learn_from_val=False,
        queries=QUERIES,
        workers=WORKERS,
        executor=executor,
        watch=[watch],
    )
    seconds, ideal = time.perf_counter() - began[0], result.ledger.calls * SLEEP / WORKERS
    return {
        "workers": kind,
        "count": WORKERS,
        "sleep": SLEEP,
        "queries": result.ledger.used,
        "calls": result.ledger.calls,
        "extra": result.ledger.extra,
        "start_seconds": round(began[0] - asked, 1),
        "seconds": round(seconds, 1),
        "ideal": round(ideal, 1),
        "ratio": round(seconds / ideal, 3),
        "load": round(os.getloadavg()[0], 1),
        "cores": os.cpu_count(),
        "before": result.comparison.before,
        "after": result.comparison.after,
        "accepted": result.accepted,
        "versions": {"metricopt": mo.__version__, "torch": torch.__version__},
    }


if __name__ == "__main__":
    for kind in sys.argv[1:] or ("forked", "executor", "ray"):
        record = measured(kind)
        print(json.dumps(record))
        with RECORDS.open("a") as file:
            file.write(json.dumps(record) + "\n")
