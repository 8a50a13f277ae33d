"""Where the search looked: points in two dimensions, coloured by the metric."""

import numpy as np

from metricopt.core.ranks import rank_correlation
from metricopt.report.figure import Figure, legend, shade_legend, shades
from metricopt.report.figures.progress import judged_word
from metricopt.report.run import Array, Run
from metricopt.report.scale import span
from metricopt.report.svg import Frame, axes, dots, drawing, line, mark
from metricopt.report.words import number, percent, plural


def embedding_figure(run: Run) -> Figure | None:
    """The value network's penultimate layer in two dimensions (Figure 2c of the paper)."""
    if run.embedding is None or len(run.embedding[1]) < 3:
        return None
    features, costs = run.embedding
    places, explained = principal_plane(features)
    values = run.natural(costs)
    order = _ordered(places, values)
    reading = (
        f"Two axes hold {percent(explained)} of the layer's variance; along the best straight direction in them the "
        f"metric is ordered with a rank correlation of {order:.2f}."
    )

    def draw(width: float) -> str:
        frame = _frame(width, places)
        return drawing(frame, [_axes(frame, explained), _points(frame, places, values, run)], label="Embedding")

    shade = shade_legend(values, run.metric, sign=run.sign)
    return Figure("embedding", "How the value function sees phi", draw, reading, shade)


def space_figure(run: Run) -> Figure | None:
    """Every queried phi in the plane of largest variance, with the path of the best points."""
    if len(run.points) < 3 or run.answered.sum() < 3:
        return None
    places, explained = principal_plane(run.points)
    path = [i for i in run.path if i < len(places)]
    end, word = (path[-1], "last") if run.judged is None else (run.judged, judged_word(run))

    def draw(width: float) -> str:
        frame = _frame(width, places)
        marks = [
            _axes(frame, explained),
            _points(frame, places, run.values, run),
            line(frame, places[path, 0], places[path, 1], "curve path"),
            _end(frame, places[path[0]], "first best point", "ring"),
            _end(frame, places[end], word, "diamond"),
        ]
        return drawing(frame, marks, label="Queried points in two dimensions")

    entries = [("best so far", "curve path", "line"), ("first", "end", "ring"), (word, "end", "diamond")]
    shade = shade_legend(run.values, run.metric, sign=run.sign)
    return Figure("space", "Where the search looked", draw, _reading(run, path, explained), shade + legend(entries))


def principal_plane(points: Array) -> tuple[Array, float]:
    """Points (n, dim) in the plane of largest variance, (n, 2), and the share of the variance it holds.

    Example:
        >>> places, explained = principal_plane(np.array([[0.0, 0, 1], [2, 0, 1], [4, 0, 1]]))
        >>> explained, np.ptp(places, axis=0).round(6).tolist()
        (1.0, [4.0, 0.0])
    """
    centred = points - points.mean(0)
    left, strength, _ = np.linalg.svd(centred, full_matrices=False)
    places = np.zeros((len(points), 2))
    kept = min(2, len(strength))
    places[:, :kept] = left[:, :kept] * strength[:kept]
    total = float((strength**2).sum())
    return places, round(float((strength[:2] ** 2).sum()) / total, 12) if total else 1.0


def _ordered(places: Array, values: Array) -> float:
    """Rank correlation of the values with their best linear reading from the places."""
    known = np.isfinite(values)
    design = np.column_stack([places[known], np.ones(int(known.sum()))])
    weights = np.linalg.lstsq(design, values[known], rcond=None)[0]
    return rank_correlation(design @ weights, values[known])


def _frame(width: float, places: Array) -> Frame:
    return Frame(width, min(0.8 * width, 420), x=span(places[:, 0]), y=span(places[:, 1]))


def _axes(frame: Frame, explained: float) -> str:
    return axes(frame, f"first principal axis ({percent(explained)} of the variance in both)", "second axis")


def _points(frame: Frame, places: Array, values: Array, run: Run) -> str:
    # Best points last, on top of the others.
    order = np.argsort(np.nan_to_num(run.sign * values, nan=-np.inf), kind="stable")
    kinds = shades(values, sign=run.sign)
    return dots(
        frame,
        places[order, 0],
        places[order, 1],
        [kinds[i] for i in order],
        shapes=["circle" if np.isfinite(values[i]) else "cross" for i in order],
        notes=[f"{i + 1}: {number(float(values[i]))}" for i in order],
    )


def _end(frame: Frame, place: Array, note: str, shape: str) -> str:
    return mark(float(frame.across(place[0])), float(frame.up(place[1])), "end", shape, note, size=6)


def _reading(run: Run, path: list[int], explained: float) -> str:
    moved = float(np.linalg.norm(run.points[path[-1]] - run.points[path[0]]))
    reach = float(np.median(np.linalg.norm(run.points - run.points[path[0]], axis=1)))
    return (
        f"The best point moved {plural(len(path) - 1, 'time')} and ended {number(moved, 2)} from where it began, where "
        f"the median query lies {number(reach, 2)} away; the plane shows {percent(explained)} of the variance of phi "
        f"in {run.points.shape[1]} dimensions."
    )
