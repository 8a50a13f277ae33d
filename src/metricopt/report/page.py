"""The page: one HTML file that needs nothing else, on a screen, on a phone or on paper."""

from collections.abc import Callable
from importlib.resources import files

from metricopt.report.answer import answer
from metricopt.report.figure import Figure
from metricopt.report.figures.boxes import box_figure
from metricopt.report.figures.classes import changes_table, class_figure
from metricopt.report.figures.forecasts import agreement_figure, forecast_figure
from metricopt.report.figures.line import line_figure
from metricopt.report.figures.progress import progress_figure
from metricopt.report.figures.space import embedding_figure, space_figure
from metricopt.report.figures.trajectories import trajectory_figure
from metricopt.report.run import Run
from metricopt.report.tables import facts, flat, query_table, stage_table, table
from metricopt.report.words import plural, safe

FIGURES: tuple[Callable[[Run], Figure | None], ...] = (
    progress_figure,
    class_figure,
    box_figure,
    trajectory_figure,
    forecast_figure,
    agreement_figure,
    embedding_figure,
    space_figure,
    line_figure,
)


def page(run: Run) -> str:
    """The report of a run as HTML.

    Example:
        >>> import numpy as np
        >>> start = {"metric": {"name": "f1", "goal": "max"}}
        >>> text = page(Run(start, stages=("start",) * 3, costs=np.array([0.4, 0.3, 0.35])))
        >>> text.startswith("<!doctype html>"), "http" in text
        (True, False)
    """
    figures = [figure for make in FIGURES if (figure := make(run)) is not None]
    body = [answer(run), _notes(run), *(figure.html for figure in figures), _changes(run), _ledger(run), _facts(run)]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{safe(run.metric)}: metricopt report</title><style>{_part('page.css')}</style></head>"
        f"<body><main>{''.join(body)}</main><script>{_part('page.js')}</script></body></html>\n"
    )


def _part(name: str) -> str:
    return files("metricopt.report").joinpath(name).read_text(encoding="utf-8")


def _notes(run: Run) -> str:
    if not run.missing:
        return ""
    rows = "".join(f"<li>{safe(each)}</li>" for each in run.missing)
    return f'<section class="notes"><h2>What is missing</h2><ul>{rows}</ul></section>'


def _changes(run: Run) -> str:
    head, rows = changes_table(run)
    if not rows:
        return ""
    return (
        f"<section><h2>{run.judged_on.capitalize()} examples by class</h2>{table(head, rows, key='classes')}</section>"
    )


def _ledger(run: Run) -> str:
    if not len(run.costs):
        return ""
    failures = int((~run.answered).sum())
    said = f"{plural(len(run.costs), 'query', 'queries')}, {plural(failures, 'failure')}."
    decided = "" if run.calls is None else f"<p>To decide took {plural(run.calls[1], 'further call')}.</p>"
    return (
        f"<section><h2>Where the queries went</h2>{stage_table(run)}{decided}"
        f"<details><summary>Every query</summary><p>{safe(said)}</p>{query_table(run)}</details></section>"
    )


_SECTIONS = {
    "settings": "Settings",
    "metric": "Metric",
    "constraints": "Constraints",
    "model": "Model",
    "data": "Data",
    "versions": "Versions",
}


def _facts(run: Run) -> str:
    parts = []
    for name, title in _SECTIONS.items():
        about = run.start.get(name)
        if isinstance(about, list):
            about = {str(i + 1): each for i, each in enumerate(about)}
        if isinstance(about, dict) and about:
            parts.append(f'<div class="about"><h3>{title}</h3>{facts(flat(about))}</div>')
    if run.health:
        last = {key: value for key, value in run.health[-1].items() if key not in ("event", "time")}
        parts.append(f'<div class="about"><h3>Value function</h3>{facts(flat(last))}</div>')
    return f'<section><h2>How it was made</h2><div class="columns">{"".join(parts)}</div></section>' if parts else ""
