"""What a run looks like while it runs: phase, best metric, queries and time left, health of the value function.

On a terminal a bar, elsewhere a line now and then: `metricopt.run.progress` decides.
"""

import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, final

from metricopt.core.ranks import rank_correlation
from metricopt.run.events import Event, Listener
from metricopt.run.progress import Progress, in_notebook


@final
class Standing:
    """Where a run stands, brought up to date by each event.

    Attributes:
        metric: Name of the metric.
        budget: Queries granted, if known.
        phase: What is being done, with how far that is.
        made: Queries answered or failed so far.
        failed: Those without an answer.
        stage: Stage of the last query.
        first: The first answer, in natural units.
        best: The best answer that keeps the constraints.
        forecasts: Pairs (forecast, answer) of the value function, as costs.
        health: Rank correlation of the value function with what came true; NaN before it is known.

    Example:
        >>> standing = Standing()
        >>> standing.hear({"event": "start", "metric": {"name": "f1", "goal": "max"}, "settings": {"queries": 9}})
        >>> standing.hear({"event": "query", "stage": "start", "cost": 0.4, "value": 0.6})
        >>> standing.hear({"event": "query", "stage": "value", "cost": 0.3, "value": 0.7})
        >>> str(standing)
        'value, best f1 0.7000 (first 0.6000)'
    """

    def __init__(self) -> None:
        self.metric, self.budget, self.sign = "metric", None, 1.0
        self.made, self.failed, self.stage = 0, 0, ""
        self.phase = ""
        self.first, self.best, self.health = math.nan, math.nan, math.nan
        self.forecasts: list[tuple[float, float]] = []

    def hear(self, event: Event) -> None:
        """Take in one event; kinds it does not know change nothing."""
        kind = event["event"]
        if kind == "start":
            self._begin(event)
        elif kind == "resume":
            self.made = int(event.get("answered", 0))
        elif kind == "query":
            self._answer(event)
        elif kind == "forecast":
            self.forecasts.extend(zip(event["predicted"], event["true"], strict=True))
            predicted, true = zip(*self.forecasts, strict=True)
            self.health = rank_correlation(predicted, true, least=5, unknown=math.nan)
        elif kind == "health":
            self.health = float(event["rank_correlation"])
        elif kind == "phase":
            self.phase = _phase(event)

    def _begin(self, event: Mapping[str, Any]) -> None:
        metric = event.get("metric", {})
        self.metric, self.sign = metric.get("name", "metric"), -1.0 if metric.get("goal") == "min" else 1.0
        self.budget = event.get("settings", {}).get("queries")

    def _answer(self, event: Mapping[str, Any]) -> None:
        self.made, self.stage = max(self.made, event.get("index", self.made - 1) + 1), str(event.get("stage", ""))
        value = event.get("value")
        if value is None or not math.isfinite(value):
            self.failed += 1
            return
        self.first = value if math.isnan(self.first) else self.first
        allowed = not event.get("violation") and not event.get("part")
        if allowed and (math.isnan(self.best) or self.sign * (value - self.best) > 0):
            self.best = value

    def __str__(self) -> str:
        stage = self.stage if self.phase in ("", "search") else self.phase
        best = "" if math.isnan(self.best) else f"best {self.metric} {self.best:.4f} (first {self.first:.4f})"
        health = "" if math.isnan(self.health) else f"value function {self.health:+.2f}"
        failed = f"{self.failed} failed" if self.failed else ""
        return ", ".join(part for part in (stage, best, health, failed) if part)


@final
class LiveView:
    """Shows on a `Progress` where a run stands; give it to `optimize(..., watch=[...])`.

    Example:
        >>> import sys
        >>> seconds = iter([0.0, 3.0])
        >>> with Progress("search", stream=sys.stdout, clock=lambda: next(seconds)) as progress:
        ...     view = LiveView(progress)
        ...     view({"event": "start", "metric": {"name": "f1", "goal": "max"}, "settings": {"queries": 9}})
        ...     view({"event": "query", "index": 0, "stage": "start", "cost": 0.4, "value": 0.6})
        search: 1/9, start, best f1 0.6000 (first 0.6000)
    """

    def __init__(self, progress: Progress) -> None:
        self.progress, self.standing = progress, Standing()

    def __call__(self, event: Event) -> None:
        """Take in one event and show what came of it."""
        phase = self.standing.phase
        self.standing.hear(event)
        self.progress.total = self.standing.budget
        if event["event"] == "plan":
            self.progress.say(planned(event))
        if self.standing.phase == "search" != phase:
            self.progress.turn()
        if event["event"] in ("query", "phase"):
            self.progress.update(self.standing.made, str(self.standing))


def planned(event: Mapping[str, Any]) -> str:
    """The plan of a run in one line.

    Example:
        >>> lines = [["search", 30, "queries"], ["decision", 36, "decisions"]]
        >>> planned({"metric": "f1", "calls": 66, "lines": lines, "given": "labels", "loss": "mse_loss", "notes": []})
        'plan: at most 66 calls of f1: 30 search, 36 decision; it is given labels; loss: mse_loss'
        >>> planned({"calls": 66, "lines": lines, "seconds": 600.0})
        'about 10 min for at most 66 calls: 30 search, 36 decision'
    """
    phases = ", ".join(f"{calls} {phase}" for phase, calls, _ in event["lines"])
    if event.get("seconds") is not None:
        return f"about {duration(event['seconds'])} for at most {event['calls']} calls: {phases}"
    notes = "".join(f"; note: {note}" for note in event["notes"])
    return (
        f"plan: at most {event['calls']} calls of {event['metric']}: {phases}; it is given {event['given']}; "
        f"loss: {event['loss']}{notes}"
    )


def duration(seconds: float) -> str:
    """Some seconds in words.

    Example:
        >>> duration(0.2), duration(59.7), duration(7200.0)
        ('a second', '60 s', '2.0 h')
    """
    if seconds < 1.5:
        return "a second"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _phase(event: Mapping[str, Any]) -> str:
    total, name = event.get("total"), str(event.get("phase", ""))
    return name if not total or name == "search" else f"{name} {event.get('done', 0)}/{total}"


@contextmanager
def watching(progress: bool | None) -> Iterator[tuple[Listener, ...]]:
    """Who shows how far a run is: nobody if False; if None nobody unless there is a terminal or a notebook.

    Example:
        >>> with watching(False) as listeners:
        ...     listeners
        ()
    """
    notebook = in_notebook()
    if progress is False or (progress is None and not (notebook or sys.stderr.isatty())):
        yield ()
        return
    with Progress("metricopt", stream=sys.stdout if notebook else None, in_place=notebook) as shown:
        yield (LiveView(shown),)
