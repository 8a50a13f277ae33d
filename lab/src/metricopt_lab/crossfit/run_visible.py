"""Rivals and recipe on problems with visible labels.

Run `python -m metricopt_lab.crossfit.run_visible RESULTS.jsonl SEEDS PROBLEMS`, the last two with commas.
"""

import sys
from dataclasses import replace
from pathlib import Path

import torch

from metricopt_lab.crossfit.acceptance import verdict
from metricopt_lab.crossfit.crossfit import QUICK, Recipe, crossfit
from metricopt_lab.crossfit.problems import PROBLEMS
from metricopt_lab.crossfit.records import Record, recorded
from metricopt_lab.crossfit.rivals import all_rivals

CALLS = 150
RECIPES = {"crossfit": Recipe(), "crossfit_quick": QUICK}


def main(path: Path, seeds: list[int], names: list[str], methods: str) -> None:
    """Run and print a line a method."""
    torch.set_flush_denormal(True)
    for seed in seeds:
        for name in names:
            problem = PROBLEMS[name].build(seed)
            before = problem.test_cost(problem.net)
            if methods != "recipe":
                for outcome in all_rivals(problem, calls=CALLS, seed=seed):
                    _show(recorded(problem, outcome, path, before=before))
            for effort, recipe in RECIPES.items() if methods != "rivals" else ():
                outcome, choice = crossfit(problem, calls=CALLS, seed=seed, recipe=recipe)
                details = outcome.details | verdict(problem, choice, seed=seed)
                _show(recorded(problem, replace(outcome, details=details), path, before=before, method=effort))


def _show(record: Record) -> None:
    gain = record.before - record.after
    print(f"{record.problem:32s} {record.seed} {record.method:20s} {record.before:.4f} -> {record.after:.4f} "
          f"({gain:+.4f}) {record.calls:4d} calls {record.cpu:6.1f} cpu s {record.details}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(s) for s in sys.argv[2].split(",")], sys.argv[3].split(","), [*sys.argv, "all"][4])
