"""The metric over queries."""

import numpy as np

from metricopt.report.figure import Figure, legend, stage_style
from metricopt.report.run import Run
from metricopt.report.scale import telling_span
from metricopt.report.svg import Frame, axes, dots, drawing, level, line, mark
from metricopt.report.words import number, plural


def progress_figure(run: Run) -> Figure | None:
    """Every answer, the best so far, and what other methods reached with as many queries."""
    if not run.answered.any():
        return None
    rivals = {name: curve for name, curve in run.rivals.items() if np.isfinite(curve).any()}
    ends = [float(part) for curve in rivals.values() for part in (np.nanmin(curve), np.nanmax(curve))]
    y = telling_span(run.values, sign=run.sign, include=[run.original, *ends])
    longest = max([len(run.costs), *(len(curve) for curve in rivals.values())])
    style = stage_style(run.stages)

    def draw(width: float) -> str:
        frame = Frame(width, 320 if width > 500 else 260, x=(0, longest * 1.01), y=y)
        numbers = np.arange(1.0, len(run.costs) + 1)
        marks = [
            axes(frame, "metric queries", f"{run.metric} on the search data"),
            level(frame, run.original, "dashed"),
            dots(
                frame,
                numbers,
                run.values,
                [style[s][0] + (" broken" if bad else "") for s, bad in zip(run.stages, run.set_aside, strict=True)],
                shapes=[style[stage][1] for stage in run.stages],
                notes=[_note(run, i) for i in range(len(run.costs))],
            ),
            *(_rival(frame, curve, i) for i, curve in enumerate(rivals.values())),
            line(frame, numbers, run.best, "curve best", steps=True),
            _judged(frame, run),
        ]
        return drawing(frame, marks, label=f"{run.metric} over metric queries")

    entries = [("best so far", "curve best", "line"), ("original", "dashed", "dash")]
    entries += [(name, f"curve r{i % 3}", "line") for i, name in enumerate(rivals)]
    entries += [(f"stage: {stage}", *style[stage]) for stage in style]
    if run.judged is not None:
        entries.append((f"{judged_word(run)}: query {run.judged + 1}", "end", "diamond"))
    if run.set_aside.any():
        why = "breaks a constraint" if run.broken.any() else "of half the rows"
        entries.append((f"paler: {why}", "dot c1 broken", "circle"))
    return Figure("progress", f"{run.metric} over queries", draw, _reading(run, y), legend(entries))


def _rival(frame: Frame, curve: np.ndarray, order: int) -> str:
    return line(frame, np.arange(1.0, len(curve) + 1), curve, f"curve r{order % 3}", steps=True)


def judged_word(run: Run) -> str:
    """What became of the query that was put to the held-out data."""
    return "judged" if run.kept is None else "kept"


def _judged(frame: Frame, run: Run) -> str:
    """A mark on the query that was put to the held-out data."""
    if run.judged is None:
        return ""
    y = float(frame.up(frame.inside(run.values[run.judged])))
    return mark(float(frame.across(run.judged + 1.0)), y, "end", "diamond", _note(run, run.judged), size=6)


def _note(run: Run, index: int) -> str:
    return f"query {index + 1}, {run.stages[index]}: {number(float(run.values[index]))}"


def _reading(run: Run, y: tuple[float, float]) -> str:
    first, best = run.original, run.best
    gain = run.sign * (best - first)
    total = float(gain[-1])
    count = plural(len(run.costs), "query", "queries")
    outside = int(((run.values < y[0]) | (run.values > y[1])).sum())
    edge = f"; {plural(outside, 'answer')} outside the range {'is' if outside == 1 else 'are'} drawn on its edge"
    if total <= 0:
        return f"No query in {count} answered better than the original's {number(first)}{edge if outside else ''}."
    half = int(np.argmax(np.nan_to_num(gain, nan=-1.0) >= total / 2)) + 1
    last = int(np.argmax(np.nan_to_num(gain, nan=-1.0) >= total)) + 1
    return (
        f"On the search data the best answer went from {number(first)} to {number(float(best[-1]))} in {count}: half "
        f"of that after {half}, all of it after {last}{_against(run)}{edge if outside else ''}."
    )


def _against(run: Run) -> str:
    parts = [
        f"{name} got to {number(float(curve[-1]))} with {len(curve)}"
        for name, curve in run.rivals.items()
        if len(curve)
    ]
    return f" ({'; '.join(parts)})" if parts else ""
