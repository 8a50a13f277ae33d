"""One figure of the page: what it shows, drawn for wide and for narrow screens, with a sentence that reads it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from metricopt.report.run import Array
from metricopt.report.svg import SHAPES, mark
from metricopt.report.words import number, safe

WIDE, NARROW = 760.0, 350.0
SHADES = 7


@dataclass(frozen=True)
class Figure:
    """A figure.

    Attributes:
        key: Short name, unique on the page.
        title: What it shows.
        draw: Gives the drawing for a width in pixels.
        reading: One sentence, made from the data, that says what can be seen.
        legend: Markup above the drawing.

    Example:
        >>> Figure("a", "A & B", lambda width: f"<svg viewBox='0 0 {width:g} 9'></svg>", "Flat.").html.count("<svg")
        2
    """

    key: str
    title: str
    draw: Callable[[float], str]
    reading: str
    legend: str = ""

    @property
    def html(self) -> str:
        """The figure as markup."""
        legend = f'<div class="legend">{self.legend}</div>' if self.legend else ""
        return (
            f'<figure id="figure-{self.key}"><h2>{safe(self.title)}</h2>{legend}'
            f'<div class="wide">{self.draw(WIDE)}</div><div class="narrow">{self.draw(NARROW)}</div>'
            f"<figcaption>{safe(self.reading)}</figcaption></figure>"
        )


def legend(entries: Sequence[tuple[str, str, str]]) -> str:
    """Entries (words, class, shape of a mark or "line", "dash", "area")."""
    return "".join(f'<span class="key">{_sample(kind, shape)}{safe(words)}</span>' for words, kind, shape in entries)


def _sample(kind: str, shape: str) -> str:
    if shape in ("line", "dash"):
        inner = f'<path class="{kind}" d="M0 7H22"/>'
    elif shape == "area":
        inner = f'<path class="{kind}" d="M0 2H22V12H0Z"/>'
    else:
        inner = mark(11, 7, kind, shape, size=4)
    return f'<svg class="sample" viewBox="0 0 22 14" aria-hidden="true">{inner}</svg>'


def stage_style(stages: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Class and shape of each stage's marks, in the order in which stages appear.

    Example:
        >>> stage_style(["start", "value", "start"])
        {'start': ('dot c0', 'circle'), 'value': ('dot c1', 'square')}
    """
    known = list(dict.fromkeys(stages))
    return {stage: (f"dot c{i % len(SHAPES)}", SHAPES[i % len(SHAPES)]) for i, stage in enumerate(known)}


def shades(values: Array, *, sign: float) -> list[str]:
    """Class of each value's shade, from worst to best; the worst tenth share the palest.

    Example:
        >>> shades(np.array([0.0, 1.0]), sign=1.0)
        ['dot q0', 'dot q6']
    """
    low, high = shade_range(values, sign=sign)
    share = np.clip((values - low) / (high - low if high != low else 1.0), 0, 1)
    return [f"dot q{min(int(each * SHADES), SHADES - 1)}" if np.isfinite(each) else "dot qx" for each in share]


def shade_range(values: Array, *, sign: float) -> tuple[float, float]:
    """The values that get the palest and the strongest shade."""
    known = values[np.isfinite(values)]
    if not len(known):
        return 0.0, 1.0
    worst, best = np.quantile(known, 0.1 if sign > 0 else 0.9), known.max() if sign > 0 else known.min()
    return float(worst), float(best)


def shade_legend(values: Array, metric: str, *, sign: float) -> str:
    """A strip of the shades with the values at its ends."""
    low, high = shade_range(values, sign=sign)
    boxes = "".join(f'<rect class="q{i}" x="{16 * i}" y="1" width="16" height="12"/>' for i in range(SHADES))
    strip = f'<svg class="strip" viewBox="0 0 {16 * SHADES} 14" aria-hidden="true">{boxes}</svg>'
    return f'<span class="key">{safe(metric)} {number(low)} or worse {strip} {number(high)}</span>'
