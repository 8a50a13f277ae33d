"""Figure S4 as a picture: a row a network, a panel a factor."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from metricopt_lab.cells import Record
from metricopt_lab.figures.figure_s4.text import COSTS, KINDS, PANELS, of

LOOKS = {"guided": ("#0072B2", "o", -0.2), "search": ("#D55E00", "s", 0.0), "loss": ("#777777", "^", 0.2)}
"""Colour, marker and offset of a method."""
TITLES = {"Observations K of T": "Observations K of T (queries)", "Input": "Input of the value function"}
"""Titles that a picture has room for."""


def draw_panels(records: Sequence[Record], path: Path) -> None:
    """Test cost of each variant, mean and standard deviation over seeds, with the pre-trained network as a line."""
    networks = list(dict.fromkeys(record["data"] for record in records))
    figure = Figure(figsize=(11.0, 2.9 * len(networks) + 0.5), layout="constrained")
    widths = [len(variants) + 0.8 for variants in PANELS.values()]
    grid = figure.subplots(len(networks), len(PANELS), sharey="row", squeeze=False, width_ratios=widths)
    for network, line in zip(networks, grid, strict=True):
        mine = [record for record in records if record["data"] == network]
        for number, (axes, (title, variants)) in enumerate(zip(line, PANELS.items(), strict=True)):
            _panel(axes, mine, variants)
            axes.set_xlabel(f"({'abcd'[number]}) {TITLES.get(title, title)}", fontsize=9)
        line[0].set_ylabel(f"{network}\n{COSTS[network]}, test images", fontsize=9)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, fontsize=9, frameon=False)
    figure.savefig(path, dpi=150)


def _panel(axes: Axes, records: Sequence[Record], variants: Mapping[str, str]) -> None:
    before = fmean(record["test_before"] for record in records)
    axes.axhline(before, color="#222222", linewidth=1.0, linestyle="--", label="pre-trained network", zorder=1)
    for kind, (colour, marker, offset) in LOOKS.items():
        found = {place: [r["test_cost"] for r in of(records, v, kind)] for place, v in enumerate(variants)}
        found = {place: costs for place, costs in found.items() if costs}
        # A method that a panel's factor does not concern stands in other panels.
        if len(found) < 2:
            found = {}
        spreads = [stdev(costs) if len(costs) > 1 else 0.0 for costs in found.values()]
        axes.errorbar(
            [place + offset for place in found], [fmean(costs) for costs in found.values()], spreads,
            fmt=marker, color=colour, markersize=5, capsize=2.5, linewidth=1.2, label=KINDS[kind],
        )  # fmt: skip
    axes.set_xticks(range(len(variants)), _labels(records, variants), fontsize=8)
    axes.set_xlim(-0.6, len(variants) - 0.4)
    axes.tick_params(axis="y", labelsize=8)
    axes.grid(axis="y", color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _labels(records: Sequence[Record], variants: Mapping[str, str]) -> list[str]:
    """Two lines each, so that all panels end at the same height; the second has the queries where these differ."""
    queries = [of(records, variant, "guided")[0]["queries"] for variant in variants]
    if len(set(queries)) > 1:
        return [f"{label}\n({count:,})" for label, count in zip(variants.values(), queries, strict=True)]
    return [label.replace(" ", "\n") if " " in label else f"{label}\n" for label in variants.values()]
