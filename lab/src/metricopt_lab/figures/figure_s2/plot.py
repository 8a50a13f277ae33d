"""Figure S2 as a picture: train loss and test metric on the same plane, side by side."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm
from matplotlib.figure import Figure

from metricopt_lab.cells import Record
from metricopt_lab.figures.figure_s2.text import SOLUTIONS

LOOKS = {
    "ce": ("#FFFFFF", "X"),
    "loss_only": ("#56B4E9", "^"),
    "aucpr": ("#E69F00", "s"),
    "cma_es": ("#CC79A7", "v"),
    "metricopt_adam": ("#009E73", "D"),
    "metricopt": ("#D55E00", "*"),
    "metricopt_advanced": ("#F0E442", "P"),
}
"""Colour and marker of a solution."""
LEVELS = 14
_OFF = 1e-3


def draw_surfaces(surface: Record, path: Path) -> None:
    """Filled contours of both heights, with the solutions, hollow where they are off the plane."""
    width, height = (surface[axis][-1] - surface[axis][0] for axis in ("x", "y"))
    figure = Figure(figsize=(10.0, 2.0 + 4.6 * height / width), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    names = {"train_loss": "train loss (cross-entropy)", "test_cost": "1 - AUCPR, test images"}
    for axes, (name, title) in zip(panels, names.items(), strict=True):
        _contours(figure, axes, surface, name)
        for method, found in surface["solutions"].items():
            _mark(axes, method, found)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("distance in phi from pre-trained, towards the AUCPR loss's solution", fontsize=9)
        axes.tick_params(labelsize=8)
        axes.set_aspect("equal")
    panels[0].set_ylabel("distance in phi across, towards MetricOpt's search", fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=4,
        fontsize=9,
        frameon=False,
        title="hollow: off the plane, at the nearest point of it",
        title_fontsize=9,
    )
    figure.savefig(path, dpi=150)


def _contours(figure: Figure, axes: Axes, surface: Record, name: str) -> None:
    heights = np.array([[np.nan if value is None else value for value in row] for row in surface[name]])
    # By quantiles: far from the solutions heights grow so fast that even steps would show nothing near them.
    levels = np.unique(np.nanquantile(heights, np.linspace(0, 1, LEVELS)).round(4))
    norm = BoundaryNorm(levels, 256)
    filled = axes.contourf(surface["x"], surface["y"], heights, levels=levels, cmap="cividis", norm=norm)
    axes.contour(surface["x"], surface["y"], heights, levels=levels[1:-1], colors="white", linewidths=0.4, alpha=0.6)
    bar = figure.colorbar(filled, ax=axes, location="bottom", ticks=levels[::2], format="%.2f", aspect=40, pad=0.02)
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
