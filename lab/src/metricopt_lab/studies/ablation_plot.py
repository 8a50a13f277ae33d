"""The ablations as a picture."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from metricopt_lab.cells import Record


def draw_ablation(records: Sequence[Record], path: Path) -> None:
    """Gains of the default search without one of its parts, and prediction error against gain of value networks."""
    searches = [r for r in records if r["metric"] == "search"]
    networks = [r for r in records if r["metric"] == "network"]
    problems = list(dict.fromkeys(r["data"] for r in searches))
    figure = Figure(figsize=(11, 6.6), layout="constrained")
    upper, lower = figure.subfigures(2, 1)  # pyright: ignore[reportGeneralTypeIssues] - rows of their own: of different numbers of plots
    for place, problem in enumerate(problems):
        _bars(upper.add_subplot(1, len(problems), place + 1), [r for r in searches if r["data"] == problem], problem)
    for place, problem in enumerate(dict.fromkeys(r["data"] for r in networks)):
        _dots(lower.add_subplot(1, 2, 1 + place), [r for r in networks if r["data"] == problem], problem)
    figure.savefig(path, dpi=110)


def _bars(axes: Axes, records: Sequence[Record], title: str) -> None:
    variants = list(dict.fromkeys(r["method"] for r in records))
    gains = [[100 * r["gain"] for r in records if r["method"] == variant] for variant in variants]
    errors = [stdev(some) / len(some) ** 0.5 if len(some) > 1 else 0.0 for some in gains]
    colours = ["#c1121f" if variant == "default" else "#9a9a9a" for variant in variants]
    axes.barh(variants, [fmean(some) for some in gains], xerr=errors, color=colours, ecolor="#333333")
    axes.invert_yaxis()
    axes.set_title(title, fontsize=9)
    axes.set_xlabel("gain on test data, points ± s.e.", fontsize=8)
    axes.tick_params(labelsize=8)


def _dots(axes: Axes, records: Sequence[Record], title: str) -> None:
    for variant in dict.fromkeys(r["method"] for r in records):
        some = [r for r in records if r["method"] == variant]
        gains, errors = [100 * r["gain"] for r in some], [r["prediction_error"] for r in some]
        axes.plot(errors, gains, "o", label=variant, markersize=6)
    axes.axhline(0, color="#9a9a9a", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_title(f"value networks on {title}", fontsize=9)
    axes.set_xlabel("prediction error on unseen observations", fontsize=8)
    axes.set_ylabel("gain on test data, points", fontsize=8)
    axes.legend(fontsize=7, frameon=False)
    axes.tick_params(labelsize=8)
