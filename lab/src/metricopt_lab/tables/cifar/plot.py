"""Tables 1 and 2 as a plot of gains."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from metricopt_lab.cells import Record
from metricopt_lab.tables.cifar.text import OURS, TITLES, gain_of, returned


def draw_gains(number: int, records: Sequence[Record], path: Path) -> None:
    """Gains of all methods as points with 95% intervals, MetricOpt in colour."""
    methods = [m for m in dict.fromkeys(record["method"] for record in records) if m != "ce"]
    figure = Figure(figsize=(6.4, 0.3 * len(methods) + 1.1), layout="constrained")
    axes = figure.add_subplot()
    axes.axvline(0, color="#444444", linewidth=0.8)
    for height, method in enumerate(methods):
        gain = gain_of(records, method)
        colour = "#D55E00" if method in OURS else "#0072B2" if "metricopt" in method else "#666666"
        each = [100 * returned(r)["gain"] for r in records if r["method"] == method]
        axes.plot(each, [height] * len(each), "|", color=colour, alpha=0.5, markersize=7)
        axes.errorbar(
            100 * gain.mean,
            height,
            xerr=196 * gain.error,
            fmt="o",
            color=colour,
            markersize=4,
            capsize=2.5,
            linewidth=1.2,
        )
    axes.set_yticks(range(len(methods)), methods, fontsize=8)
    axes.set_ylim(len(methods) - 0.5, -0.5)
    axes.tick_params(labelsize=8)
    granted = records[0]["budget"]
    axes.set_xlabel(f"gain on test images in points, {granted} queries (95% intervals, ticks: seeds)", fontsize=8)
    axes.set_title(f"CIFAR-10: {TITLES[number]}", fontsize=9)
    axes.grid(axis="x", color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.savefig(path, dpi=150)
