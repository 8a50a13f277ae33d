"""The answer, first: what was gained, whether it is kept, and why, in plain words."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from metricopt.report.choice import choice
from metricopt.report.run import Run
from metricopt.report.scale import span
from metricopt.report.svg import Frame, drawing, mark, text, ticks
from metricopt.report.words import duration, number, percent, plural, safe, signed


def answer(run: Run) -> str:
    """Headline, verdict, the gain with its interval as a picture, and the numbers in tiles."""
    kind, verdict = verdict_of(run)
    return (
        f'<section class="answer {kind}"><p class="eyebrow">{safe(_eyebrow(kind))}</p>'
        f'<h1>{headline(run)}</h1><p class="verdict">{safe(verdict)}</p>'
        f"{_gain(run)}{_paragraph(choice(run))}{_paragraph(_test(run))}{_tiles(run)}</section>"
    )


def _paragraph(said: str) -> str:
    return f'<p class="verdict">{safe(said)}</p>' if said else ""


def headline(run: Run) -> str:
    """Before and after, as markup."""
    before, after = run.accepted.get("before"), run.accepted.get("after")
    where = f"on {run.judged_on} data"
    where = where if run.accepted.get("accepted") else f"proposed, {where}"
    if not run.accepted:
        best = run.best[-1] if len(run.best) else np.nan
        before, after, where = run.original, float(best), "on the search data so far"
    return (
        f'{safe(run.metric)} <span class="from">{number(before)}</span> <span class="arrow" aria-label="to">→</span> '
        f'<span class="to">{number(after)}</span> <small>{where}</small>'
    )


def _eyebrow(kind: str) -> str:
    names = {"yes": "accepted", "no": "not accepted", "open": "not finished", "stopped": "stopped early"}
    return names[kind]


def verdict_of(run: Run) -> tuple[str, str]:
    """A kind (yes, no, stopped, open) and the sentence that explains it."""
    found = run.accepted
    if not found:
        return _unfinished(run)
    kind, said = _judged(found)
    if kind == "yes" and run.result.get("plainer") and run.judged is None:
        said += (
            " It is a start or a shift of the outputs, or an earlier point: the search's best was not surely better."
        )
    early = run.result.get("stopped")
    return kind, f"{said} The search ended early: {early}." if early else said


_ABOUT_ROWS = {
    "out-of-fold": ", each predicted by networks that had not seen it,",
    "searched": " that the search has queried, less what its luck explains,",
}


def _judged(found: Mapping[str, Any]) -> tuple[str, str]:
    low, high = _interval(found)
    level = percent(found.get("level"))
    examples = found.get("examples")
    rows = plural(examples, "example") if isinstance(examples, int) else "examples"
    rows += _ABOUT_ROWS.get(str(found.get("rows")), " that the search never queried")
    if found.get("accepted"):
        return "yes", (
            f"The new model is kept: on {rows} it is better, and the whole {level} "
            f"interval of the gain ({signed(low)} to {signed(high)}) lies above zero.{_shared(found)}{_kept(found)}"
        )
    if low is not None and low > 0:
        why = "it is better, but a constraint does not surely hold"
    elif found.get("rows") == "searched":
        why = f"the {level} interval of the gain ({signed(low)} to {signed(high)}) is not above zero"
    elif high is not None and high < 0:
        why = f"it is worse ({level} interval of the gain {signed(low)} to {signed(high)})"
    else:
        why = f"the {level} interval of the gain ({signed(low)} to {signed(high)}) includes zero, so it may be luck"
    return "no", f"The original model is returned: on {rows} {why}.{_shared(found)}{_kept(found)}"


def _shared(found: Mapping[str, Any]) -> str:
    """Why an interval is wider than was asked for."""
    judged = found.get("judged")
    if not isinstance(judged, int) or not 1 < judged < 100:
        return ""
    return f" {judged} models were judged and share the error that is allowed, hence {percent(found.get('level'))}."


def _test(run: Run) -> str:
    found = run.test
    if not found or not run.accepted.get("accepted"):
        return ""  # the original against itself
    low, high = _interval(found)
    return (
        f"On {number(found.get('examples'))} test examples, used once: {number(found.get('before'))} to "
        f"{number(found.get('after'))} (gain {signed(low)} to {signed(high)}).{_rivals(run)}"
    )


def _rivals(run: Run) -> str:
    """What other methods are worth on the same test examples."""
    said = ""
    for name, found in run.beside.items():
        low, high = _interval(found)
        said += (
            f" There {name} has {number(found.get('before'))}; the gain over it is {signed(low)} to {signed(high)} "
            f"({percent(found.get('level'))} interval)."
        )
    return said


def _unfinished(run: Run) -> tuple[str, str]:
    stopped = run.result.get("stopped")
    made = plural(len(run.costs), "query", "queries")
    of = "" if run.budget is None else f" of {run.budget:,}"
    if stopped:
        return "stopped", f"The run ended early after {made}{of}: {stopped}. Nothing was accepted."
    return "open", (
        f"The run is going on or was interrupted after {made}{of}. These are the best answers on the data that are "
        "searched on; whether a gain is real is decided on held-out data at the end."
    )


def _interval(found: Mapping[str, Any]) -> tuple[float | None, float | None]:
    ends = found.get("interval")
    if not isinstance(ends, list | tuple) or len(ends) != 2:
        return None, None
    low, high = (end if isinstance(end, int | float) else None for end in ends)
    return low, high


def _kept(found: Mapping[str, Any]) -> str:
    """What became of the constraints, if there were any."""
    rows = found.get("constraints")
    if not isinstance(rows, list) or not rows:
        return ""
    parts = [_constraint(row) for row in rows if isinstance(row, Mapping)]
    return f" Constraints there: {'; '.join(parts)}."


def _constraint(row: Mapping[str, Any]) -> str:
    kept = "kept" if row.get("holds") else "not surely kept"
    sure = row.get("confidence")
    bound = f", {percent(sure)} bound {number(row.get('bound'))}" if isinstance(sure, float) else ""
    return f"{row.get('text')} is {kept} (value {number(row.get('after'))}{bound})"


def _gain(run: Run) -> str:
    """The interval of the gain on a line with zero marked."""
    low, high = _interval(run.accepted)
    before, after = run.accepted.get("before"), run.accepted.get("after")
    if low is None or high is None or not isinstance(before, float) or not isinstance(after, float):
        return ""
    gain = run.sign * (after - before)
    x = span([low, high, 0.0, gain], pad=0.12)
    frames = (Frame(width, 62, x=x, y=(0, 1), left=16, right=16, bottom=0, top=0) for width in (700.0, 330.0))
    wide, narrow = (_interval_drawing(frame, low, high, gain=gain) for frame in frames)
    return f'<div class="gain"><div class="wide">{wide}</div><div class="narrow">{narrow}</div></div>'


def _interval_drawing(frame: Frame, low: float, high: float, *, gain: float) -> str:
    zero, a, b, middle = (float(frame.across(x)) for x in (0.0, low, high, gain))
    labels = [
        text(float(frame.across(tick)), 58, "no gain" if tick == 0 else signed(tick, 3), "tick")
        for tick in ticks(*frame.x, 4 if frame.width > 500 else 3)
    ]
    marks = [
        f'<path class="axis" d="M{frame.left:g} 40H{frame.width - frame.right:g}"/>',
        f'<path class="zero" d="M{zero:.1f} 10V44"/>',
        f'<path class="interval" d="M{a:.1f} 26H{b:.1f}M{a:.1f} 19V33M{b:.1f} 19V33"/>',
        mark(middle, 26, "centre", "circle", f"gain {signed(gain)}", size=6),
        text(middle, 13, f"gain {signed(gain)}", "strong"),
    ]
    return drawing(frame, marks + labels, label=f"Gain {signed(gain)}, interval {signed(low)} to {signed(high)}")


def _tiles(run: Run) -> str:
    seconds = run.result.get("seconds")
    if seconds is None and np.isfinite(run.times).any():
        seconds = float(np.nanmax(run.times))
    tiles = [
        _calls(run),
        ("time", duration(seconds), "" if run.result else "so far"),
    ]
    confidence = run.accepted.get("confidence")
    if isinstance(confidence, float):
        tiles.append(("better in resamples", percent(confidence), f"of {number(run.accepted.get('resamples'))} paired"))
    correlation = run.result.get("rank_correlation")
    if isinstance(correlation, float) and np.isfinite(correlation):
        tiles.append(("value function", f"{correlation:.2f}", "rank correlation with answers it had not seen"))
    return f'<dl class="tiles">{"".join(_tile(*each) for each in tiles)}</dl>'


def _calls(run: Run) -> tuple[str, str, str]:
    """Every call of the user's metric where that was counted, or else the queries of the search."""
    failed = int((~run.answered).sum())
    fate = f"{failed:,} failed" if failed else "none failed"
    counted = run.calls
    if counted is None:
        of = "" if run.budget is None else f"of {run.budget:,}, "
        return "metric queries", f"{len(run.costs):,}", f"{of}{fate}"
    search, decision = counted
    planned = run.result.get("planned_calls")
    most = f"at most {planned:,} were planned; " if isinstance(planned, int) else ""
    said = f"{search:,} to search, {decision:,} to decide; {most}{fate}"
    return "calls of the metric", f"{search + decision:,}", said


def _tile(name: str, value: str, note: str) -> str:
    return f"<div><dt>{safe(name)}</dt><dd>{safe(value)}<small>{safe(note)}</small></dd></div>"
