"""Figure S2 as a picture: train loss and test metric on the same plane, side by side."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from metricopt.experiments.experiment import Record
from metricopt.experiments.figure_s2_text import SOLUTIONS

LOOKS = {
    "ce": ("#FFFFFF", "X"),
    "loss_only": ("#56B4E9", "^"),
    "aucpr": ("#E69F00", "s"),
    "cma_es": ("#CC79A7", "v"),
    "metricopt_adam": ("#009E73", "D"),
    "metricopt": ("#D55E00", "*"),
}
"""Colour and marker of a solution."""
LEVELS = 14
_OFF = 1e-3


def draw_surfaces(surface: Record, path: Path) -> None:
    """Filled contours of both heights, with the solutions, hollow where they are off the plane."""
    figure = Figure(figsize=(10.0, 4.6), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    names = {"train_loss": "train loss (cross-entropy)", "test_cost": "1 - AUCPR, test images"}
    for axes, (name, title) in zip(panels, names.items(), strict=True):
        _contours(figure, axes, surface, name)
        for method, found in surface["solutions"].items():
            _mark(axes, method, found)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("towards the AUCPR loss's solution, distance in phi", fontsize=9)
        axes.tick_params(labelsize=8)
        axes.set_aspect("equal")
    panels[0].set_ylabel("towards MetricOpt's search, distance in phi", fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8.5, frameon=False)
    figure.savefig(path, dpi=150)


def _contours(figure: Figure, axes: Axes, surface: Record, name: str) -> None:
    heights = np.array([[np.nan if value is None else value for value in row] for row in surface[name]])
    # By quantiles: far from the solutions heights grow so fast that even steps would show nothing near them.
    levels = np.unique(np.nanquantile(heights, np.linspace(0, 1, LEVELS)).round(4))
    filled = axes.contourf(surface["x"], surface["y"], heights, levels=levels, cmap="cividis", norm="log")
    axes.contour(surface["x"], surface["y"], heights, levels=levels, colors="white", linewidths=0.4, alpha=0.6)
    bar = figure.colorbar(filled, ax=axes, ticks=levels[::2], format="%.3g", shrink=0.9)
    bar.ax.minorticks_off()
    bar.ax.tick_params(labelsize=8)


def _mark(axes: Axes, method: str, found: Record) -> None:
    colour, marker = LOOKS[method]
    hollow = found["off_plane"] > _OFF
    x, y = found["place"]
    axes.plot(
        x, y, linestyle="none", marker=marker, markersize=13 if marker == "*" else 9, label=SOLUTIONS[method],
        markerfacecolor="none" if hollow else colour, markeredgecolor=colour if hollow else "black",
        markeredgewidth=2.0 if hollow else 1.0,
    )  # fmt: skip
