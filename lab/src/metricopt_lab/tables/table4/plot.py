"""Table 4 as a plot of gains."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from metricopt_lab.cells import Record
from metricopt_lab.tables.table4.text import gain_of


def draw_gains(records: Sequence[Record], path: Path) -> None:
    """Gains in top-1 accuracy of all rows as points with 95% intervals, MetricOpt in colour."""
    methods = [each for each in dict.fromkeys(record["method"] for record in records) if each != "pretrained"]
    figure = Figure(figsize=(6.4, 0.3 * len(methods) + 1.1), layout="constrained")
    axes = figure.add_subplot()
    axes.axvline(0, color="#444444", linewidth=0.8)
    for height, method in enumerate(methods):
        ours = "metricopt" in method or method.endswith("_run")
        found, colour = gain_of(records, method), "#D55E00" if ours else "#666666"
        each = [100 * record["gain"] for record in records if record["method"] == method]
        axes.plot(each, [height] * len(each), "|", color=colour, alpha=0.5, markersize=7)
        axes.errorbar(100 * found.mean, height, xerr=100 * found.half, fmt="o", color=colour, markersize=4, capsize=2.5)
    axes.set_yticks(range(len(methods)), methods, fontsize=8)
    axes.set_ylim(len(methods) - 0.5, -0.5)
    axes.tick_params(labelsize=8)
    axes.set_xlabel("gain in top-1 accuracy on test images in points (95% intervals, ticks: seeds)", fontsize=8)
    axes.grid(axis="x", color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.savefig(path, dpi=150)
