"""Figure 3 as a picture: a row a network, three panels each."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from metricopt_lab.cells import Record
from metricopt_lab.figures.figure3.text import COSTS, PAIR, SCHEME_WORDS, correlation, names, of, point

_COLOURS = {"offline": "#0072B2", "offline-no-oe": "#E69F00"}
_KINDS = {"offline": "#0072B2", "reptile": "#D55E00", "rounds": "#009E73", "paper": "#777777"}
_MARKERS = {
    "": ("o", "all terms"),
    "no-oe": ("^", "no $L_{oe}$"),
    "no-s": ("s", "no $s_t$"),
    "floor": ("D", "$s_t$ with floor"),
}
_SIGNALS = {"loss": "#777777", "metric": "#E69F00", "subspace": "#56B4E9", "both": "#0072B2"}


_ERROR_TICKS = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_TITLES = ("(a) Predictions with and without $L_{oe}$", "(b) Prediction error and final metric", "(c) Meta-testing")


def draw_rows(records: Sequence[Record], path: Path) -> None:
    """Predictions against truth, prediction error against the final metric, and ways of meta-testing."""
    networks = list(dict.fromkeys(record["data"] for record in records))
    figure = Figure(figsize=(12.0, 3.5 * len(networks) + 0.2), layout="constrained")
    grid = figure.subplots(len(networks), 3, squeeze=False, width_ratios=(1.1, 1.1, 1))
    for network, (left, middle, right) in zip(networks, grid, strict=True):
        mine = [record for record in records if record["data"] == network]
        _predictions(left, mine, COSTS[network])
        _errors(middle, mine, COSTS[network])
        _schemes(right, mine, COSTS[network])
        left.set_ylabel(f"{network}\n\n{left.get_ylabel()}", fontsize=9)
    for axes in grid.flat:
        axes.tick_params(labelsize=8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    for axes, title in zip(grid[0], _TITLES, strict=True):
        axes.set_title(title, fontsize=10)
    figure.savefig(path, dpi=150)


def _predictions(axes: Axes, records: Sequence[Record], cost: str) -> None:
    truth = [each for record in of(records, "value", "offline") for each in record["true_change"]]
    ends = [min(truth), max(truth)]
    axes.plot(ends, ends, color="#222222", linewidth=0.8, zorder=1)
    for name, words in PAIR.items():
        mine = of(records, "value", name)
        error, rank = (fmean(record[field] for record in mine) for field in ("prediction_error", "rank_correlation"))
        axes.scatter(
            [each for record in mine for each in record["true_change"]],
            [each for record in mine for each in record["predicted_change"]],
            s=9, color=_COLOURS[name], alpha=0.5, linewidths=0,
            label=f"{words.replace('L_oe', '$L_{oe}$')}: error {error:.4f}, rank corr. {rank:.2f}",
        )  # fmt: skip
    axes.locator_params(axis="x", nbins=5)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.22 * (high - low))  # room for the legend
    axes.set_xlabel(f"true change of {cost}, search images", fontsize=9)
    axes.set_ylabel(f"predicted change of {cost}", fontsize=9)
    axes.legend(fontsize=7.5, frameon=False, loc="upper left", borderaxespad=0)


def _errors(axes: Axes, records: Sequence[Record], cost: str) -> None:
    values = [record for record in records if record["metric"] == "value"]
    for record in values:
        kind, _, change = record["method"].partition("-")
        x, y = point(record)
        axes.scatter(x, y, s=22, color=_KINDS[kind], marker=_MARKERS[change][0], alpha=0.7, linewidths=0)
    axes.axhline(fmean(record["test_before"] for record in records), color="#222222", linewidth=0.8, linestyle="--")
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    shown = [tick for tick in _ERROR_TICKS if low <= tick <= high]
    axes.set_xticks(shown, [f"{tick:g}" for tick in shown])
    axes.set_xticks([], minor=True)
    rank = correlation([point(record) for record in values])
    axes.set_xlabel(f"prediction error (rank correlation {rank:+.2f})", fontsize=9)
    axes.set_ylabel(f"final {cost}, test images", fontsize=9)
    present = {name.partition("-")[0] for name in names(records, "value")}
    handles = [Line2D([], [], color=c, marker="o", linestyle="", label=k) for k, c in _KINDS.items() if k in present]
    handles += [
        Line2D([], [], color="#222222", marker=m, markerfacecolor="none", linestyle="", label=w)
        for m, w in _MARKERS.values()
    ]
    handles += [Line2D([], [], color="#222222", linestyle="--", linewidth=0.8, label="pre-trained")]
    axes.legend(handles=handles, fontsize=7, frameon=False, ncols=1, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _schemes(axes: Axes, records: Sequence[Record], cost: str) -> None:
    before = fmean(record["test_before"] for record in records)
    some = names(records, "scheme")
    for place, name in enumerate(some):
        costs = [record["test_cost"] for record in of(records, "scheme", name)]
        error = stdev(costs) if len(costs) > 1 else 0.0
        colour = _SIGNALS[name.partition("-")[0]]
        axes.errorbar(fmean(costs), place, xerr=error, fmt="o", color=colour, capsize=3, linewidth=1.6)
    axes.axvline(before, color="#222222", linewidth=0.8, linestyle="--")
    axes.set_yticks(range(len(some)), [SCHEME_WORDS[name] for name in some], fontsize=8)
    axes.set_ylim(len(some) - 0.5, -0.5)
    axes.grid(axis="x", color="#dddddd", linewidth=0.5)
    axes.set_xlabel(f"final {cost}, test images", fontsize=9)
