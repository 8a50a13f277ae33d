"""Charts as SVG text: marks take their colours from the page's style sheet, so one drawing serves light and dark.

Nothing here has an id, so any number of charts may share a page.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from metricopt.report.run import Array
from metricopt.report.scale import Range, tick_texts, ticks

SHAPES = ("circle", "square", "triangle", "turned", "cross", "ring")
"""Of stages; a diamond is what was kept, and nothing else."""


@dataclass(frozen=True)
class Frame:
    """A rectangle to draw in, with the range of numbers along either side.

    Attributes:
        width: Of the whole drawing, in pixels.
        height: The same.
        x: Numbers from left to right.
        y: Numbers from bottom to top.
        left: Margin for the numbers beside the axis.
        bottom: Margin for the numbers below the axis.

    Example:
        >>> frame = Frame(200, 100, x=(0.0, 1.0), y=(0.0, 1.0), left=40, bottom=30)
        >>> float(frame.across(0.0)), float(frame.up(0.0))
        (40.0, 70.0)
    """

    width: float
    height: float
    x: Range
    y: Range
    left: float = 62
    bottom: float = 42
    top: float = 10
    right: float = 14

    def across(self, x: float | Array) -> Array:
        """Pixels from the left."""
        share = (np.asarray(x, dtype=float) - self.x[0]) / (self.x[1] - self.x[0])
        return self.left + share * (self.width - self.left - self.right)

    def up(self, y: float | Array) -> Array:
        """Pixels from the top."""
        share = (np.asarray(y, dtype=float) - self.y[0]) / (self.y[1] - self.y[0])
        return self.height - self.bottom - share * (self.height - self.bottom - self.top)

    def inside(self, y: Array) -> Array:
        """The numbers moved into the range where they leave it."""
        return np.clip(y, *self.y)


def drawing(frame: Frame, marks: Iterable[str], *, label: str) -> str:
    """A whole drawing that scales with the page and says to a screen reader what it is."""
    size = f"{frame.width:g} {frame.height:g}"
    return f'<svg viewBox="0 0 {size}" role="img" aria-label="{escape(label)}">{"".join(marks)}</svg>'


def axes(frame: Frame, x_label: str, y_label: str, *, x_ticks: bool = True) -> str:
    """Grid lines, numbers and names of both axes."""
    many = max(2, int((frame.width - frame.left) / 90))
    parts = [_y_tick(frame, *each) for each in _labelled(frame.y, 5)]
    if x_ticks:
        parts += [_x_tick(frame, *each) for each in _labelled(frame.x, many)]
    middle = (frame.left + frame.width - frame.right) / 2
    centre = (frame.top + frame.height - frame.bottom) / 2
    parts.append(text(middle, frame.height - 6, x_label, "name"))
    parts.append(
        f'<text class="name" transform="translate(13 {centre:.1f}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_label)}</text>"
    )
    return "".join(parts)


def _labelled(values: Range, count: int) -> list[tuple[float, str]]:
    found = ticks(*values, count)
    return list(zip(found, tick_texts(found), strict=True))


def _y_tick(frame: Frame, value: float, words: str) -> str:
    y = float(frame.up(value))
    line = f'<path class="grid" d="M{frame.left:g} {y:.1f}H{frame.width - frame.right:g}"/>'
    return line + text(frame.left - 7, y + 4, words, "tick", anchor="end")


def _x_tick(frame: Frame, value: float, words: str) -> str:
    x, y = float(frame.across(value)), frame.height - frame.bottom
    return f'<path class="axis" d="M{x:.1f} {y:g}v4"/>' + text(x, y + 17, words, "tick")


def text(x: float, y: float, words: str, kind: str, *, anchor: str = "middle") -> str:
    """Words at a place."""
    if not words:
        return ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def line(frame: Frame, x: Array, y: Array, kind: str, *, steps: bool = False) -> str:
    """A line through the finite points; with `steps`, level until the next one."""
    known = np.isfinite(x) & np.isfinite(y)
    if not known.any():
        return ""
    points = [f"{a:.1f} {b:.1f}" for a, b in zip(frame.across(x[known]), frame.up(frame.inside(y[known])), strict=True)]
    if not steps:
        return f'<path class="{kind}" d="M{"L".join(points)}"/>'
    path = points[0] + "".join(f"H{point.split()[0]}V{point.split()[1]}" for point in points[1:])
    return f'<path class="{kind}" d="M{path}"/>'


def band(frame: Frame, x: Array, low: Array, high: Array, *, kind: str) -> str:
    """The area between two curves."""
    across = np.concatenate([frame.across(x), frame.across(x)[::-1]])
    up = np.concatenate([frame.up(frame.inside(low)), frame.up(frame.inside(high))[::-1]])
    points = "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(across, up, strict=True))
    return f'<path class="{kind}" d="M{points}Z"/>'


def whiskers(frame: Frame, x: Array, low: Array, high: Array, *, kind: str) -> str:
    """Upright lines from `low` to `high`, all in one path."""
    ends = zip(frame.across(x), frame.up(frame.inside(low)), frame.up(frame.inside(high)), strict=True)
    path = "".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in ends if np.isfinite(b + c))
    return f'<path class="{kind}" d="{path}"/>'


def level(frame: Frame, y: float, kind: str) -> str:
    """A line across the whole width."""
    return f'<path class="{kind}" d="M{frame.left:g} {float(frame.up(y)):.1f}H{frame.width - frame.right:g}"/>'


def dots(frame: Frame, x: Array, y: Array, kinds: Sequence[str], *, shapes: Sequence[str], notes: Sequence[str]) -> str:
    """One mark a point, with a note that shows when pointed at; points out of range sit on the edge."""
    up = frame.up(frame.inside(y))
    rows = zip(frame.across(x), up, kinds, shapes, notes, strict=True)
    return "".join(mark(float(a), float(b), *rest) for a, b, *rest in rows if np.isfinite(b))


def mark(x: float, y: float, kind: str, shape: str, note: str = "", *, size: float = 3.6) -> str:
    """One mark of a shape of `SHAPES`, or a diamond."""
    title = f"<title>{escape(note)}</title>" if note else ""
    if shape in ("circle", "ring"):
        hollow = " hollow" if shape == "ring" else ""
        return f'<circle class="{kind}{hollow}" cx="{x:.1f}" cy="{y:.1f}" r="{size:g}">{title}</circle>'
    return f'<path class="{kind}" d="M{x:.1f} {y:.1f}{_OUTLINES[shape](size)}">{title}</path>'


_OUTLINES = {
    "square": lambda s: f"m{-s:g} {-s:g}h{2 * s:g}v{2 * s:g}h{-2 * s:g}z",
    "triangle": lambda s: f"m0 {-1.3 * s:g}l{1.2 * s:g} {2.2 * s:g}h{-2.4 * s:g}z",
    "turned": lambda s: f"m0 {1.3 * s:g}l{1.2 * s:g} {-2.2 * s:g}h{-2.4 * s:g}z",
    "diamond": lambda s: f"m0 {-1.4 * s:g}l{1.4 * s:g} {1.4 * s:g}l{-1.4 * s:g} {1.4 * s:g}l{-1.4 * s:g} {-1.4 * s:g}z",
    "cross": lambda s: f"m{-s:g} {-s:g}l{2 * s:g} {2 * s:g}m0 {-2 * s:g}l{-2 * s:g} {2 * s:g}",
}
