"""A run in a cell of a notebook: a few lines and one curve, without style, script or id that could meet others."""

import numpy as np

from metricopt.report.answer import headline, verdict_of
from metricopt.report.choice import choice
from metricopt.report.run import Run
from metricopt.report.scale import telling_span
from metricopt.report.svg import Frame, drawing, level, line, text
from metricopt.report.words import duration, number, plural, safe

WIDTH, HEIGHT = 560.0, 120.0
_BOX = "max-width:44rem;line-height:1.45"
_FIRST = "font-size:1.15em;font-weight:600"


def html_of(run: Run) -> str:
    """A fragment of HTML about a run, for `_repr_html_`; it takes colours and fonts from where it is shown.

    Example:
        >>> run = Run({"metric": {"name": "f1"}}, stages=("start", "value"), costs=np.array([0.4, 0.3]))
        >>> html = html_of(run)
        >>> html.startswith("<div style="), "<script" in html, "<style" in html
        (True, False, False)
    """
    said = [f'<div style="{_FIRST}">{headline(run)}</div>', *_sentences(run), _curve(run), f"<div>{_spent(run)}</div>"]
    return f'<div style="{_BOX}">{"".join(said)}</div>'


def _sentences(run: Run) -> list[str]:
    return [f"<div>{safe(said)}</div>" for said in (verdict_of(run)[1], choice(run)) if said]


def _curve(run: Run) -> str:
    """The best answer after each query, from the original's."""
    if not np.isfinite(run.best).any():
        return ""
    y = telling_span(run.best, sign=run.sign, include=[run.original])
    frame = Frame(WIDTH, HEIGHT, x=(0, len(run.costs) * 1.01), y=y, left=6, right=6, bottom=18, top=6)
    numbers = np.arange(1.0, len(run.costs) + 1)
    best = float(run.best[-1])
    marks = [
        '<g fill="none" stroke="currentColor" stroke-width="1.8">',
        line(frame, numbers, run.best, "metricopt-best", steps=True),
        '</g><g fill="none" stroke="currentColor" stroke-dasharray="4 4" opacity=".5">',
        level(frame, run.original, "metricopt-original"),
        '</g><g fill="currentColor" font-size="12">',
        text(
            6,
            HEIGHT - 3,
            f"best {run.metric} on the search data: {number(run.original)} to {number(best)}",
            "metricopt-words",
            anchor="start",
        ),
        "</g>",
    ]
    drawn = drawing(frame, marks, label=f"Best {run.metric} over metric queries")
    return f'<div style="max-width:{WIDTH:g}px;margin:.4em 0">{drawn}</div>'


def _spent(run: Run) -> str:
    parts = [plural(len(run.costs), "metric query", "metric queries")]
    if run.calls is not None:
        parts = [f"{plural(sum(run.calls), 'call')} of the metric, {run.calls[1]:,} of them to decide"]
    if run.result.get("seconds") is not None:
        parts.append(duration(run.result["seconds"]))
    return safe(", ".join(parts))
