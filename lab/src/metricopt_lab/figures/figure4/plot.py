"""Figure 4 as a picture: a curve and a band a method."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from metricopt.report.words import plural
from metricopt_lab.cells import Record
from metricopt_lab.figures.figure4.text import METHODS, of

LOOKS = {
    "sgd": ("#777777", "-"),
    "adam": ("#56B4E9", "-"),
    "power_sign": ("#999933", ":"),
    "lstm": ("#AA4499", ":"),
    "mlp": ("#882255", ":"),
    "metricopt_sgd": ("#D55E00", "-"),
    "metricopt_adam": ("#0072B2", "-"),
    "metricopt_learned": ("#E69F00", "-"),
    "metricopt_learned_value": ("#000000", "-"),
    "metricopt_learned_whole": ("#CC79A7", "-"),
    "search": ("#009E73", "--"),
}
"""Colour and line of a method."""


def draw_curves(records: Sequence[Record], path: Path) -> None:
    """Mean and standard deviation over runs at each step; the default search, which has no steps, as a line."""
    figure = Figure(figsize=(7.8, 4.8), layout="constrained")
    axes = figure.add_subplot()
    steps = next(record["steps"] for record in records if "steps" in record)
    for method in METHODS:
        mine = of(records, method)
        if mine:
            _curve(axes, steps, mine, method)
    axes.set_xlim(steps[0], steps[-1])
    axes.set_xlabel("finetuning step")
    axes.set_ylabel("1 - AUCPR on test images")
    axes.grid(axis="y", color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right center", fontsize=9, frameon=False)
    figure.savefig(path, dpi=150)


def _curve(axes: Axes, steps: Sequence[int], records: Sequence[Record], method: str) -> None:
    colour, line = LOOKS[method]
    costs = np.array([record["test_costs"] for record in records], float)  # (runs, marks)
    if method == "search":
        costs = costs[:, -1:].repeat(len(steps), 1)
    mean, std = costs.mean(0), costs.std(0, ddof=1) if len(costs) > 1 else 0.0 * costs[0]
    label = f"{METHODS[method]}\n({plural(len(records), 'run')}, {_asked(records[0])} queries)"
    axes.plot(steps, mean, line, color=colour, linewidth=1.8, label=label)
    axes.fill_between(steps, mean - std, mean + std, color=colour, alpha=0.18, linewidth=0)


def _asked(record: Record) -> str:
    """Queries of a run, and of meta-training, which another run may have paid for."""
    before = record.get("meta_queries", 0)
    return f"{record['queries']} + {before:,}" if before else str(record["queries"])
