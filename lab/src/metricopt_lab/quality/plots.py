"""Plots of the benchmark: gains by problem and budget, and wins against each rival."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, isnan
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from metricopt_lab.quality.analysis import ORIGINAL, Standing, duels, standings
from metricopt_lab.quality.methods import DEFAULT, PAPER, WITH_LABELS
from metricopt_lab.quality.rows import Row

_COLUMNS = 5
_KINDS = {"threshold": "threshold helps", "ranking": "threshold powerless", "mismatch": "mismatch"}
_COLOURS = {"win": "#2a7f62", "tie": "#d9d9d9", "loss": "#c8553d"}


@dataclass(frozen=True)
class Look:
    """Colour, line and width of a method."""

    colour: str
    line: str = "-"
    width: float = 1.4


_LOOKS = {
    DEFAULT: Look("#c1121f", width=2.6),
    WITH_LABELS: Look("#c1121f", "--", 2.2),
    PAPER: Look("#e09f3e"),
    "post_shift": Look("#3a86c8"),
    "cma_es": Look("#2a7f62"),
    "post_shift_then_cma": Look("#7b5ea7"),
    "snes": Look("#9a9a9a"),
    "label_finetune": Look("#555555", ":"),
    "label_finetune_then_cma": Look("#2a7f62", "--"),
}


def plot_gains(rows: Sequence[Row], path: Path) -> None:
    """One panel a problem: gain over the pre-trained model against queries, with bands of one standard error."""
    some = standings(rows)
    kinds = list(_KINDS)
    problems = sorted({(kinds.index(one.kind), one.problem) for one in some})
    columns = min(_COLUMNS, len(problems))
    lines = ceil(len(problems) / columns)
    figure = Figure(figsize=(2.75 * columns + 0.4, 2.35 * lines + 1.1), layout="constrained")
    for place, (kind, problem) in enumerate(problems):
        axes = figure.add_subplot(lines, columns, place + 1)
        _gain_panel(axes, [one for one in some if one.problem == problem])
        metric = next(row["metric"] for row in rows if row["problem"] == problem)
        axes.set_title(f"{problem}\n{metric}, {_KINDS[kinds[kind]]}", fontsize=8)
    figure.supxlabel("metric queries", fontsize=9)
    figure.supylabel("gain on test data over the\npre-trained model, points", fontsize=9)
    handles = _legend(figure)
    figure.legend(*handles, loc="outside upper center", ncols=max(1, columns), fontsize=8, frameon=False)
    figure.savefig(path, dpi=150)


def _gain_panel(axes: Axes, some: Sequence[Standing]) -> None:
    budgets = sorted({one.queries for one in some})
    axes.axhline(0, color="#444444", linewidth=0.8)
    for method, look in _LOOKS.items():
        mine = sorted([one for one in some if one.method == method], key=lambda one: one.queries)
        if mine:
            _gain_line(axes, mine, look)
    axes.set_xscale("log")
    axes.set_xticks(budgets, [str(budget) for budget in budgets])
    axes.minorticks_off()
    axes.tick_params(labelsize=7)
    _bounded_below(axes, some)
    axes.spines[["top", "right"]].set_visible(False)


def _gain_line(axes: Axes, mine: Sequence[Standing], look: Look) -> None:
    x = [one.queries for one in mine]
    y = [100 * one.gain.mean for one in mine]
    error = [0.0 if isnan(one.gain.standard_error) else 100 * one.gain.standard_error for one in mine]
    axes.plot(
        x, y, look.line, color=look.colour, linewidth=look.width, marker="o", markersize=2.5, label=mine[0].method
    )
    low, high = ([a + sign * b for a, b in zip(y, error, strict=True)] for sign in (-1, 1))
    axes.fill_between(x, low, high, color=look.colour, alpha=0.12, linewidth=0)


def _bounded_below(axes: Axes, some: Sequence[Standing]) -> None:
    """A method that fails badly must not flatten the others: the panel ends below zero at half the best gain."""
    shown = {100 * one.gain.mean: one.method for one in some if one.method in _LOOKS}
    bottom, lowest = -0.5 * max([*shown, 0.4]), min([*shown, 0.0])
    axes.set_ylim(bottom=max(axes.get_ylim()[0], bottom))
    if lowest < bottom:
        note = f"{shown[lowest]} down to {lowest:.1f}"
        axes.text(0.02, 0.02, note, transform=axes.transAxes, fontsize=6, color="#555555")


def _legend(figure: Figure) -> tuple[list, list[str]]:
    found = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    return list(found.values()), list(found)


def plot_wins(rows: Sequence[Row], path: Path) -> None:
    """Problems won, tied and lost against each rival: a column a budget, a row each of our methods."""
    budgets = sorted({row["queries"] for row in rows})
    methods = {row["method"]: row["needs_labels"] for row in rows}
    ours = [name for name in (DEFAULT, WITH_LABELS) if name in methods]
    rivals = {name: _rivals(name, methods) for name in ours}
    heights = [max(len(rivals[name]), 1) for name in ours] or [1]
    figure = Figure(
        figsize=(2.6 * len(budgets) + 2.6, 0.24 * sum(heights) + 1.0 * len(heights) + 0.6), layout="constrained"
    )
    grid = figure.add_gridspec(max(len(ours), 1), len(budgets), height_ratios=heights)
    for line, name in enumerate(ours):
        for column, queries in enumerate(budgets):
            axes = figure.add_subplot(grid[line, column])
            _win_panel(axes, rows, name, queries, rivals=rivals[name], named=column == 0)
    handles = [Patch(color=colour, label=word) for word, colour in _COLOURS.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=3, fontsize=8, frameon=False)
    figure.supxlabel("problems (significant by a paired t-test over seeds, p < 0.05; otherwise a tie)", fontsize=8)
    figure.savefig(path, dpi=150)


def _rivals(ours: str, methods: dict[str, bool]) -> list[str]:
    """Rivals that see no more than `ours`, the pre-trained model first."""
    some = [name for name, labels in methods.items() if name != ours and (methods[ours] or not labels)]
    return sorted(some, key=lambda name: (name != ORIGINAL, "metricopt" in name, methods[name]))


def _win_panel(axes: Axes, rows: Sequence[Row], ours: str, queries: int, *, rivals: Sequence[str], named: bool) -> None:
    fought = duels(rows, ours, queries)
    for height, rival in enumerate(rivals):
        counts, left = Counter(gain.verdict for key, gain in fought.items() if key[0] == rival), 0
        for word, colour in _COLOURS.items():
            axes.barh(height, counts[word], left=left, color=colour, height=0.78)
            if counts[word]:
                white = word != "tie"
                axes.text(
                    left + counts[word] / 2, height, str(counts[word]),
                    ha="center", va="center", fontsize=7, color="white" if white else "#333333",
                )  # fmt: skip
            left += counts[word]
    axes.set_title(f"{ours} at {queries} queries", fontsize=8)
    axes.set_yticks(range(len(rivals)), rivals if named else [""] * len(rivals), fontsize=7)
    axes.set_ylim(len(rivals) - 0.5, -0.5)
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[["top", "right", "bottom", "left"]].set_visible(False)
