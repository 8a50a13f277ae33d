"""The study of the paper's recipe as a picture."""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from metricopt_lab.cells import Record

LOOKS = {
    "both": ("#D55E00", "o"),
    "standardised": ("#E69F00", "s"),
    "no-norm": ("#56B4E9", "^"),
    "letter": ("#0072B2", "v"),
    "untrained": ("#999999", "x"),
}
"""Colour and marker of a variant."""

FIGURES = {
    "rank_correlation": "rank correlation, trajectories never seen",
    "gain": "gain on test rows",
}


def draw_recipe(records: Sequence[Record], path: Path) -> None:
    """A row of two panels for each data set, means over seeds as lines and every seed as a point."""
    data = list(dict.fromkeys(record["data"] for record in records))
    figure = Figure(figsize=(8.0, 2.7 * len(data) + 0.5), layout="constrained")
    panels = figure.subplots(len(data), 2, squeeze=False)
    for row, name in zip(panels, data, strict=True):
        some = [record for record in records if record["data"] == name]
        for axes, figure_name in zip(row, FIGURES, strict=True):
            _draw(axes, some, figure_name)
            axes.set_title(f"{name}, {some[0]['metric']}\n{FIGURES[figure_name]}", fontsize=8)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    figure.savefig(path, dpi=150)


def _draw(axes: Axes, records: Sequence[Record], name: str) -> None:
    numbers = sorted({record["tasks"] for record in records})
    axes.axhline(0, color="#444444", linewidth=0.8)
    for variant, (colour, marker) in LOOKS.items():
        by_tasks = {n: [r[name] for r in records if (r["variant"], r["tasks"]) == (variant, n)] for n in numbers}
        known = {n: values for n, values in by_tasks.items() if values}
        means = [mean(values) for values in known.values()]
        axes.plot(list(known), means, color=colour, marker=marker, markersize=5, linewidth=1.4, label=variant)
        for n, values in known.items():
            axes.plot([n] * len(values), values, "_", color=colour, alpha=0.5, markersize=8)
    axes.set_xscale("log")
    axes.set_xticks(numbers, [f"{n:,}" for n in numbers], fontsize=8)
    axes.minorticks_off()
    axes.tick_params(labelsize=8)
    axes.set_xlabel("tasks", fontsize=8)
    axes.grid(color="#dddddd", linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
