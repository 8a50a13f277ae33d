"""Writes `recorded.jsonl`: `python -m tests.replay.record` after a change that is meant to change results.

The first line says on which machine and by which versions the runs were made. Runs of a version are never replaced by
others of the same version: whoever changes results first bumps `metricopt.search.RECIPE_VERSION`, or the `version` of a
rival, so that records of experiments made before are seen to be stale.
"""

import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tests.replay.problems import PROBLEMS
from tests.replay.runs import WAYS

from metricopt.paper.preset import PAPER_VERSION
from metricopt_lab.cells.versions import version_of

FILE = Path(__file__).with_name("recorded.jsonl")
Line = dict[str, Any]


def machine() -> dict[str, str]:
    """What the last bits may depend on beside the code."""
    return {"torch": torch.__version__.partition("+")[0], "processor": torch.backends.cpu.get_cpu_capability()}


def head() -> Line:
    """The first line: the machine, and the present version of the search and of each rival."""
    return {
        "machine": machine(),
        "versions": {way: PAPER_VERSION if way == "paper" else version_of(way) for way in WAYS},
    }


def replay(problem: str, way: str) -> Line:
    """One run: phi and the costs that were answered, bit for bit."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a flat value function and the like
        phi, costs = WAYS[way](PROBLEMS[problem]())
    return {
        "problem": problem,
        "way": way,
        "phi": phi.float().numpy().tobytes().hex(),
        "costs": [cost.hex() for cost in costs],
    }


def refusal(old: Sequence[Line], new: Sequence[Line]) -> str:
    """Why recordings, each with its first line, must not be replaced by others; empty if they may be."""
    before, after = old[0], new[0]
    if before["machine"] != after["machine"]:
        return ""  # bits differ from machine to machine
    was = {(run["problem"], run["way"]): run for run in old[1:]}
    for run in new[1:]:
        way = run["way"]
        known = was.get((run["problem"], way), run)
        if known != run and before["versions"].get(way) == after["versions"][way]:
            return (
                f"{way} on {run['problem']} has other bits than those recorded by the same version "
                f"{after['versions'][way]}; bump RECIPE_VERSION of metricopt.search, or the rival's version, and "
                f"record again, or undo what changed them"
            )
    return ""


def recorded() -> list[Line]:
    """All lines of the file."""
    return [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    """Run everything and write it down, unless that would hide a change."""
    lines = [head(), *(replay(problem, way) for problem in PROBLEMS for way in WAYS)]
    if FILE.exists() and (reason := refusal(recorded(), lines)):
        sys.exit(reason)
    FILE.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
