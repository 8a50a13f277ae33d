"""Writes `recorded.jsonl`: `python -m tests.replay.record` after a change that is meant to change results."""

import json
import warnings
from pathlib import Path
from typing import Any

import torch
from tests.replay.problems import PROBLEMS
from tests.replay.runs import WAYS

FILE = Path(__file__).with_name("recorded.jsonl")


def machine() -> dict[str, str]:
    """What the last bits may depend on beside the code."""
    return {"torch": torch.__version__.partition("+")[0], "processor": torch.backends.cpu.get_cpu_capability()}


def replay(problem: str, way: str) -> dict[str, Any]:
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


def main() -> None:
    """Run everything and write it down."""
    lines = [json.dumps({"machine": machine()})]
    lines += [json.dumps(replay(problem, way)) for problem in PROBLEMS for way in WAYS]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
