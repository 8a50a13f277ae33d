"""What is known of the weights that come with metricopt, as a table."""

from pathlib import Path
from typing import Any

from metricopt.paper.learned.weights import load_optimizer, shipped_optimizers
from metricopt_lab.markdown import table
from metricopt_lab.optimizers import lstm

OWN = Path(lstm.__file__).parent / "shipped"
"""Weights of rules that only the laboratory has."""


def weights_table() -> str:
    """One row a set of weights: what it was trained for, how long, and what that cost in metric queries.

    Example:
        >>> "cifar10_aucpr" in weights_table()
        True
    """
    named: list[tuple[str, str | Path]] = [(name, name) for name in shipped_optimizers()]
    named += [(f"{path.name} (laboratory)", path) for path in sorted(OWN.iterdir()) if path.is_dir()]
    header = [
        "weights",
        "what",
        "tasks",
        "steps each",
        "metric queries",
        "exploded unrolls",
        "meta-loss, first and last",
    ]
    header += ["rank correlation of f at the end", "CPU seconds"]
    return table(header, [[name, *_row(dict(load_optimizer(origin).about))] for name, origin in named])


def _row(about: dict[str, Any]) -> list[str]:
    history = about["history"]
    objectives = [each for each in history["objective"] if each is not None]
    correlations = [each for each in history["correlation"] if each is not None]
    return [
        about["about"],
        str(about["tasks"]),
        str(about["settings"]["steps"]),
        str(about["queries"]),
        str(about["exploded"]),
        f"{objectives[0]:.2f}, {objectives[-1]:.2f}",
        f"{correlations[-1]:.2f}" if correlations else "—",
        f"{about['cpu_seconds_of_last_process']:.0f}",
    ]
