"""Metric and loss along and around the way from the original to the result."""

import numpy as np

from metricopt.report.figure import Figure, legend
from metricopt.report.run import Array, Flags, Landscape, Run
from metricopt.report.scale import span, telling_span
from metricopt.report.svg import Frame, axes, dots, drawing, line
from metricopt.report.words import number, plural

CLOSE = 0.35
"""A query counts as near the way if it is no further off than this share of the way's length."""


def line_figure(run: Run) -> Figure | None:
    """Queries by how far along the way they lie, fainter the further off it; below, the loss where it was computed."""
    where = along(run)
    if where is None:
        return None
    share, distance = where
    near = distance <= max(float(np.quantile(distance, 0.1)), CLOSE * _length(run))
    x = span(share[near], [0.0, 1.0])
    inside = (share >= x[0]) & (share <= x[1]) & run.answered
    y = telling_span(run.values[inside], sign=run.sign, include=[run.original])

    def draw(width: float) -> str:
        height = 280.0 if width > 500 else 240.0
        frame = Frame(width, height, x=x, y=y)
        words = "0 = original, 1 = result"
        top = axes(frame, words, f"{run.metric} on the search data") + _marks(
            frame, run, share, near=near, inside=inside
        )
        if run.landscape is None:
            return drawing(frame, [top], label="Metric along the way")
        return _with_loss(frame, top, run.landscape)

    entries = [("query near the way", "dot c1", "circle"), ("query further off", "dot far", "circle")]
    if run.landscape is not None:
        entries.append(("training loss on the way", "curve best", "line"))
    return Figure("line", "Along the way from original to result", draw, _reading(run, share, near), legend(entries))


def along(run: Run) -> tuple[Array, Array] | None:
    """Of each query, the share of the way from the original to the result and the distance from it."""
    points = run.points
    if len(points) < 3 or not run.answered.any():
        return None
    target, length = _target(run), _length(run)
    if length == 0 or target.shape != points[0].shape:
        return None
    share = points @ target / length**2
    return share, np.linalg.norm(points - share[:, None] * target, axis=1)


def _target(run: Run) -> Array:
    """phi of the proposal, or of the best query where there is none yet."""
    return run.points[int(np.nanargmin(run.costs))] if run.proposal is None else run.proposal


def _length(run: Run) -> float:
    return float(np.linalg.norm(_target(run)))


def _marks(frame: Frame, run: Run, share: Array, *, near: Flags, inside: Flags) -> str:
    order = [i for i in np.argsort(near, kind="stable") if inside[i]]
    return dots(
        frame,
        share[order],
        run.values[order],
        ["dot c1" if near[i] else "dot far" for i in order],
        shapes=["circle"] * len(order),
        notes=[f"query {i + 1}: {number(float(run.values[i]))} at {share[i]:.2f}" for i in order],
    )


def _with_loss(frame: Frame, top: str, landscape: Landscape) -> str:
    height = 150.0
    shown = (landscape.shares >= frame.x[0]) & (landscape.shares <= frame.x[1])
    lower = Frame(frame.width, height, x=frame.x, y=span(landscape.loss[shown]))
    curve = line(lower, landscape.shares[shown], landscape.loss[shown], "curve best")
    bottom = (
        f'<g transform="translate(0 {frame.height:g})">{axes(lower, "", "training loss", x_ticks=False)}{curve}</g>'
    )
    whole = Frame(frame.width, frame.height + height - 20, x=frame.x, y=frame.y)
    return drawing(whole, [top, bottom], label="Metric and loss along the way")


def _reading(run: Run, share: Array, near: Flags) -> str:
    known = run.answered & near
    best = int(np.flatnonzero(known)[np.argmax(run.sign * run.values[known])]) if known.any() else 0
    said = (
        f"Among the {plural(int(known.sum()), 'answered query', 'answered queries')} nearest to the straight way, the "
        f"best lies at {share[best]:.2f} of it with {run.metric} {number(float(run.values[best]))}"
    )
    if run.landscape is None:
        return f"{said}; the loss along the way was not recorded."
    at = [float(np.interp(place, run.landscape.shares, run.landscape.loss)) for place in (0.0, 1.0)]
    change = "rises" if at[1] > at[0] else "falls"
    return f"{said}; the training loss {change} from {number(at[0])} at the original to {number(at[1])} at the result."
