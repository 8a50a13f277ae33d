"""Queries needed by each kind of transfer on each pair, as a picture."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from metricopt_lab.cells import Record
from metricopt_lab.studies.transfer.text import needed

_COLOURS = ("#666666", "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#000000")


def draw_needed(records: Sequence[Record], path: Path) -> None:
    """One row a pair, one colour a kind; ticks are seeds, points their means."""
    pairs = list(dict.fromkeys(record["data"] for record in records))
    methods = list(dict.fromkeys(record["method"] for record in records))
    figure = Figure(figsize=(6.4, 0.75 * len(pairs) + 1.2), layout="constrained")
    axes = figure.add_subplot()
    for row, pair in enumerate(pairs):
        for place, method in enumerate(methods):
            mine = [r for r in records if (r["data"], r["method"], r["refused"]) == (pair, method, "")]
            each, height = [needed(record) for record in mine], row + 0.12 * (place - len(methods) / 2)
            if each:
                axes.plot(each, [height] * len(each), "|", color=_COLOURS[place], alpha=0.5, markersize=6)
                axes.plot(sum(each) / len(each), height, "o", color=_COLOURS[place], markersize=4)
    for place, method in enumerate(methods):
        axes.plot([], [], "o", color=_COLOURS[place], markersize=4, label=method)
    axes.axvline(records[0]["granted"], color="#444444", linewidth=0.8)
    axes.set_yticks(range(len(pairs)), pairs, fontsize=8)
    axes.set_ylim(len(pairs) - 0.5, -0.5)
    axes.tick_params(labelsize=8)
    axes.set_xlabel("queries until the gain of a cold search is reached (ticks: seeds)", fontsize=8)
    figure.legend(fontsize=7, ncols=6, loc="outside upper center", frameon=False)
    axes.grid(axis="x", color="#dddddd", linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
