"""One picture of both acts: what each method had found after so many calls, and what it is worth on test rows."""

import io
from collections.abc import Sequence
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
    for axes, played in zip(figure.subplots(1, 2), (done.first, done.second), strict=True):
        _draw(axes, played)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110)
    write_bytes(path, picture.getvalue())


def _draw(axes: Any, played: Played) -> None:
    act, last = played.act, len(played.tuned.best)
    for best, colour in ((played.tuned.best, THEIRS), (played.best, OURS)):
        axes.step(range(1, len(best) + 1), best, where="post", color=colour, linewidth=1.8)
    values = {"metricopt": played.gain.after, act.rival: played.tuning_gain.after, "as trained": played.gain.before}
    for colour, value in zip((OURS, THEIRS, ORIGINAL), values.values(), strict=True):
        axes.plot(1.06 * last, value, "o", color=colour, markersize=7)
    low, high = axes.get_ylim()
    heights = spread(list(values.values()), BETWEEN * (high - low))
    for colour, height, (name, value) in zip((OURS, THEIRS, ORIGINAL), heights, values.items(), strict=True):
        axes.text(1.1 * last, height, f"{name} {value:.3f}", color=colour, va="center", fontweight="bold")
    axes.set_title(act.title.capitalize(), loc="left", fontweight="bold")
    axes.set(xlabel="calls of the metric; dots: test rows", ylabel=act.metric.name, xlim=(0, 1.6 * last))
    axes.set_xticks([0, last // 2, last])
    axes.spines[["top", "right"]].set_visible(False)


def spread(heights: Sequence[float], least: float) -> list[float]:
    """The heights, moved up where they would be closer to each other than `least`.

    Example:
        >>> spread([0.5, 0.5, 0.9], 0.1)
        [0.5, 0.6, 0.9]
    """
    placed = list(heights)
    order = sorted(range(len(placed)), key=lambda i: placed[i])
    for below, above in zip(order, order[1:], strict=False):
        placed[above] = max(placed[above], placed[below] + least)
    return placed
