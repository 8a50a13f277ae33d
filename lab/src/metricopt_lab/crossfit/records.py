"""Measurements, one line each, appended to a .jsonl file."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from metricopt_lab.crossfit.outcome import Outcome
from metricopt_lab.crossfit.problem import Problem


@dataclass(frozen=True)
class Record:
    """One method on one problem of one seed; costs are on test rows, lower is better."""

    seed: int
    problem: str
    method: str
    calls: int
    seconds: float
    cpu: float
    before: float
    after: float
    details: dict[str, float | str] = field(default_factory=dict)


def recorded(problem: Problem, outcome: Outcome, path: Path, *, before: float, method: str | None = None) -> Record:
    """Judge an outcome on the test rows and append what was measured."""
    record = Record(problem.seed, problem.name, method or outcome.method, outcome.calls, round(outcome.seconds, 3),
                    round(outcome.cpu, 3), before, outcome.test_cost(problem), outcome.details)  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(asdict(record)) + "\n")
    return record


def read(path: Path) -> list[Record]:
    """All records of a file."""
    return [Record(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []
