"""Finetuning paths with the few observations on each and the Gaussian process between them."""

import numpy as np

from metricopt.report.figure import Figure, legend
from metricopt.report.run import Array, Run, Trajectories
from metricopt.report.scale import Range, span
from metricopt.report.svg import Frame, axes, band, dots, drawing, line
from metricopt.report.words import number, percent, plural

MOST = 6
"""Paths shown."""


def trajectory_figure(run: Run) -> Figure | None:
    """Small multiples: one panel a path."""
    paths = run.trajectories
    if paths is None or not len(paths.mean):
        return None
    shown = list(range(min(MOST, len(paths.mean))))
    mean = run.natural(paths.mean[shown])
    y = span(mean.ravel(), run.natural(paths.costs[shown]).ravel())

    def draw(width: float) -> str:
        across = 3 if width > 500 else 2
        panels = [_panel(run, paths, i, y, width=width / across) for i in shown]
        rows = -(-len(panels) // across)
        placed = [
            f'<g transform="translate({(i % across) * width / across:.0f} {(i // across) * _HEIGHT:.0f})">{panel}</g>'
            for i, panel in enumerate(panels)
        ]
        return drawing(Frame(width, rows * _HEIGHT, x=(0, 1), y=(0, 1)), placed, label="Finetuning paths")

    entries = [("observed", "dot c1", "circle"), ("interpolated", "curve best", "line")]
    entries.append(("two standard deviations", "area", "area"))
    return Figure("trajectories", "Finetuning paths", draw, _reading(run, paths), legend(entries))


_HEIGHT = 180.0


def _panel(run: Run, paths: Trajectories, index: int, y: Range, *, width: float) -> str:
    steps = np.arange(float(paths.mean.shape[1]))
    mean, std = run.natural(paths.mean[index]), run.unit * paths.std[index]
    low, high = run.bounds
    observed, values = paths.observed_steps[index], run.natural(paths.costs[index])
    frame = Frame(width, _HEIGHT, x=(-1, len(steps)), y=y, left=54, bottom=40)
    notes = [f"step {step:.0f}: {number(float(value))}" for step, value in zip(observed, values, strict=True)]
    return (
        axes(frame, f"path {index + 1}, step", run.metric)
        + band(frame, steps, np.maximum(mean - 2 * std, low), np.minimum(mean + 2 * std, high), kind="area")
        + line(frame, steps, mean, "curve best")
        + dots(frame, observed, values, ["dot c1"] * len(values), shapes=["circle"] * len(values), notes=notes)
    )


def _reading(run: Run, paths: Trajectories) -> str:
    count, observations = paths.costs.shape
    better = run.sign * (run.natural(paths.mean[:, -1]) - run.natural(paths.mean[:, 0])) > 0
    return (
        f"{plural(observations, 'query', 'queries')} on each of {plural(count, 'path')} of {paths.mean.shape[1]} loss "
        f"steps leave the metric known to {number(_median_std(run, paths.std))} (median deviation); it ended better "
        f"than it began on {percent(float(better.mean()))} of the paths."
    )


def _median_std(run: Run, std: Array) -> float:
    return float(np.median(std)) * run.unit
