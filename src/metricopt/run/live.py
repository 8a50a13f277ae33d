"""What a run looks like while it runs: best metric, queries left, value-function health and time left, from its events.

On a terminal a bar, elsewhere a line now and then: `metricopt.run.progress` decides.
"""

import math
from collections.abc import Mapping
from typing import Any, final

from metricopt.core.ranks import rank_correlation
from metricopt.run.events import Event
from metricopt.run.progress import Progress


@final
class Standing:
    """Where a run stands, brought up to date by each event.

    Attributes:
        metric: Name of the metric.
        budget: Queries granted, if known.
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
        allowed = not event.get("violation")
        if allowed and (math.isnan(self.best) or self.sign * (value - self.best) > 0):
            self.best = value

    def __str__(self) -> str:
        best = "" if math.isnan(self.best) else f"best {self.metric} {self.best:.4f} (first {self.first:.4f})"
        health = "" if math.isnan(self.health) else f"value function {self.health:+.2f}"
        failed = f"{self.failed} failed" if self.failed else ""
        return ", ".join(part for part in (self.stage, best, health, failed) if part)


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
        self.standing.hear(event)
        self.progress.total = self.standing.budget
        if event["event"] == "query":
            self.progress.update(self.standing.made, str(self.standing))
