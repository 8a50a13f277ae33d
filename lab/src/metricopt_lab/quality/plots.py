"""Two pictures: how much of the possible gain each method gets for its calls, and against whom we win."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from metricopt_lab.cells import Record
from metricopt_lab.quality.duels import differences, word
from metricopt_lab.quality.gains import interval, normalised, seen
from metricopt_lab.quality.tables import ordered
from metricopt_lab.quality.targets import OURS

_ORANGE = "#e07a1f"
_SHADES = ("#30638e", "#2a7f62", "#7b5ea7", "#b08900", "#5c6770", "#3a86c8")
_COLOURS = {"win": "#2a7f62", "tie": "#d9d9d9", "loss": "#d1495b"}
_SVG: dict[Any, Any] = {"svg.hashsalt": "metricopt", "svg.fonttype": "none"}


def plot_gains(records: Sequence[Record], path: Path) -> None:
    """Mean normalised gain against calls of the metric, labels visible on the left and hidden on the right."""
    kinds = [(title, some) for title, some in
             (("labels visible: rivals finetune the weights", seen(records, labels_visible=True)),
              ("labels hidden: only the metric tells", seen(records, labels_visible=False))) if some]  # fmt: skip
    figure = Figure(figsize=(5.6 * len(kinds), 4.2), layout="constrained")
    for place, (title, some) in enumerate(kinds):
        axes = figure.add_subplot(1, len(kinds), place + 1)
        _gain_panel(axes, some)
        axes.set_title(title, fontsize=10, loc="left")
    figure.supxlabel("calls of the metric", fontsize=9)
    figure.supylabel("share of the best gain that\nany method reached", fontsize=9)
    _save(figure, path)


def _gain_panel(axes: Axes, records: Sequence[Record]) -> None:
    found, budgets = normalised(records), sorted({record["queries"] for record in records})
    full = max(len(each) for each in found.values())
    # A line ends where its method was measured on all problems for the last time.
    measured = {name: [q for q in budgets if len(found.get((name, q), ())) == full] for name in ordered(records)}
    shown = [name for name in measured if measured[name]]
    ends: list[tuple[float, str, str]] = []
    heights = [0.0, 1.0]
    for rank, method in enumerate(shown):
        means = [interval(found[method, queries]) for queries in measured[method]]
        mine = method == OURS
        colour = _ORANGE if method.startswith(OURS) else _SHADES[rank % len(_SHADES)]
        line = "-" if mine or not method.startswith(OURS) else "--"
        axes.plot(measured[method], [one.mean for one in means], line, color=colour, linewidth=2.8 if mine else 1.3,
                  marker="o", markersize=5 if mine else 3, zorder=3 if mine else 2)  # fmt: skip
        if mine:
            low, high = [one.low for one in means], [one.high for one in means]
            axes.fill_between(measured[method], low, high, color=colour, alpha=0.13, linewidth=0)
        ends.append((means[-1].mean, method, colour))
        heights += [one.mean for one in means]
    # The lines say how high the panel is; a band of few problems may leave it.
    axes.set_ylim(min(heights) - 0.08, max(heights) + 0.08)
    _name_lines(axes, ends, budgets[-1])
    axes.axhline(0, color="#444444", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlim(budgets[0] * 0.85, budgets[-1] * (budgets[-1] / budgets[0]) ** 0.55)
    axes.set_xticks(budgets, [f"{queries:,}" for queries in budgets])
    axes.minorticks_off()
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _name_lines(axes: Axes, ends: Sequence[tuple[float, str, str]], last: int) -> None:
    """Names beside the ends of the lines, moved apart where they would lie upon each other."""
    low, high = axes.get_ylim()
    gap, above = 0.052 * (high - low), float("inf")
    for height, method, colour in sorted(ends, reverse=True):
        above = min(height, above - gap)
        weight = "bold" if method == OURS else "normal"
        axes.annotate(f"{method} {height:.2f}".replace("0.", ".", 1), (last, height), (last * 1.12, above), fontsize=8,
                      color=colour, va="center", weight=weight)  # fmt: skip


def plot_duels(records: Sequence[Record], path: Path) -> None:
    """Problems won, tied and lost against each rival at 150 and 500 calls."""
    kinds = [some for some in (seen(records, labels_visible=each) for each in (True, False))
             if any(record["method"] == OURS for record in some)]  # fmt: skip
    budgets = [queries for queries in (150, 500) if any(record["queries"] == queries for record in records)]
    rivals = [[name for name in ordered(some) if name != OURS] for some in kinds]
    heights = [max(len(names), 1) for names in rivals] or [1]
    figure = Figure(figsize=(2.2 + 3.2 * max(len(budgets), 1), 0.9 + sum(0.32 * h + 0.5 for h in heights)),
                    layout="constrained")  # fmt: skip
    grid = figure.add_gridspec(len(heights), max(len(budgets), 1), height_ratios=[h + 1.2 for h in heights])
    for line, some in enumerate(kinds):
        for column, queries in enumerate(budgets):
            axes = figure.add_subplot(grid[line, column])
            _duel_panel(axes, some, rivals[line], queries, named=column == 0)
            labels = "visible" if some is kinds[0] and len(rivals[0]) and _is_visible(some) else "hidden"
            axes.set_title(f"{queries} calls, labels {labels}", fontsize=9, loc="left")
    handles = [Patch(color=colour, label=f"{OURS} {text}") for colour, text in
               zip(_COLOURS.values(), ("better", "about the same", "worse"), strict=True)]  # fmt: skip
    figure.legend(handles=handles, loc="outside upper center", ncols=3, fontsize=9, frameon=False)
    figure.supxlabel("problems (by more than one standard error over seeds)", fontsize=9)
    _save(figure, path)


def _is_visible(records: Sequence[Record]) -> bool:
    return records == seen(records, labels_visible=True)


def _duel_panel(axes: Axes, records: Sequence[Record], rivals: Sequence[str], queries: int, *, named: bool) -> None:
    for height, rival in enumerate(rivals):
        counts, left = Counter(word(gain) for gain in differences(records, OURS, rival, queries).values()), 0
        for kind, colour in _COLOURS.items():
            axes.barh(height, counts[kind], left=left, color=colour, height=0.8)
            if counts[kind]:
                dark = "#333333" if kind == "tie" else "white"
                axes.text(left + counts[kind] / 2, height, str(counts[kind]), ha="center", va="center", fontsize=8,
                          color=dark)  # fmt: skip
            left += counts[kind]
    axes.set_yticks(range(len(rivals)), rivals if named else [""] * len(rivals), fontsize=8)
    axes.set_ylim(len(rivals) - 0.5, -0.5)
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[["top", "right", "bottom", "left"]].set_visible(False)


def _save(figure: Figure, path: Path) -> None:
    """The same bytes for the same records: no date, and names of parts that do not depend on the moment."""
    with mpl.rc_context(_SVG):
        figure.savefig(path, metadata={"Date": None})
