"""One picture of both acts: what each method had found after so many calls, and what it is worth on test rows."""

import io
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from metricopt.core.writing import write_bytes
from metricopt.demo.play import Demo, Played

OURS, THEIRS, ORIGINAL = "#2463b4", "#d07a00", "#596273"
BETWEEN = 0.08
"""Least distance of two labels, as a share of the axis."""


def draw_progress(done: Demo, path: Path) -> None:
    """Draw both acts side by side into a PNG file; needs matplotlib."""
    # Imported here: it takes a second, and is an extra. A Figure of its own, without pyplot, leaves no state behind.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    acts = (done.first, done.second)
    # As many units of the metric on both axes, so that a tie looks like one.
    height = 1.15 * max(max(_values(played)) - min(_values(played)) for played in acts)
    for axes, played in zip(figure.subplots(1, 2), acts, strict=True):
        _draw(axes, played, height)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110)
    write_bytes(path, picture.getvalue())


def _values(played: Played) -> list[float]:
    return [*played.best, *played.tuned.best, played.gain.before, played.gain.after, played.tuning_gain.after]


def _draw(axes: Any, played: Played, height: float) -> None:
    act, last = played.act, len(played.best)
    for best, colour in ((played.tuned.best[:last], THEIRS), (played.best, OURS)):
        axes.step(range(1, len(best) + 1), best, where="post", color=colour, linewidth=1.8)
    tested = {"metricopt": played.gain.after, act.rival: played.tuning_gain.after, "as trained": played.gain.before}
    labels = spread(list(tested.values()), BETWEEN * height)
    for colour, label, (name, value) in zip((OURS, THEIRS, ORIGINAL), labels, tested.items(), strict=True):
        axes.plot(1.06 * last, value, "o", color=colour, markersize=7)
        axes.text(1.1 * last, label, f"{name} {value:.3f}", color=colour, va="center", fontweight="bold")
    middle = (max(_values(played)) + min(_values(played))) / 2
    axes.set_title(act.title.capitalize(), loc="left", fontweight="bold")
    axes.set(xlim=(0, 1.75 * last), ylim=(middle - height / 2, middle + height / 2), xticks=[0, last // 2, last])
    axes.set(xlabel="queries of the search; dots: on test rows", ylabel=act.metric.name)
    axes.spines[["top", "right"]].set_visible(False)


def spread(heights: Sequence[float], least: float) -> list[float]:
    """The heights, moved up where they would be closer to each other than `least`.

    Example:
        >>> spread([0.5, 0.5, 0.9], 0.1)
        [0.5, 0.6, 0.9]
    """
    placed = list(heights)
    order = sorted(range(len(placed)), key=lambda i: placed[i])
    for below, above in pairwise(order):
        placed[above] = max(placed[above], placed[below] + least)
    return placed
