"""The figures of one cell: a method on a problem with a seed, at every budget."""

import math
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from metricopt.run.ledger import QueryLedger
from metricopt_lab.cells import Record
from metricopt_lab.quality.judge import Judge
from metricopt_lab.quality.methods import Method

Row = dict[str, Any]
"""One run at one budget as plain data. Metrics are in natural units, `cost_...` in [0, 1] where lower is better."""


@dataclass(frozen=True)
class Run:
    """A finished search at one budget.

    Attributes:
        rungs: The vectors it proposes, plainest first, (k, dim).
        used: Queries it made.
        seconds: Wall time of the search.
        cpu_seconds: Time of the processor.
        rank_correlation: Of the value function with held-out answers, where there is one.
        warnings: How often it warned, by category.
    """

    rungs: Tensor
    used: int
    seconds: float
    cpu_seconds: float
    rank_correlation: float | None
    warnings: dict[str, int]


class Stopwatch:
    """Times at which queries were answered; listens to a ledger.

    Example:
        >>> import torch
        >>> watch = Stopwatch()
        >>> ledger = QueryLedger(listener=watch)
        >>> ledger.charge(2, stage="search")
        >>> ledger.enter(torch.zeros(2), stage="search")
        >>> watch.at(1) <= watch.at(3)
        True
    """

    def __init__(self) -> None:
        self._began = (time.perf_counter(), time.process_time())
        self._marks: list[tuple[int, tuple[float, float]]] = []

    def __call__(self, ledger: QueryLedger) -> None:
        """Note the time of an answer."""
        self._marks.append((ledger.used, self._now()))

    def at(self, queries: int) -> tuple[float, float]:
        """Wall and processor seconds until `queries` queries were answered, or until now if fewer were."""
        return next((now for used, now in self._marks if used >= queries), self._now())

    def _now(self) -> tuple[float, float]:
        wall, cpu = self._began
        return time.perf_counter() - wall, time.process_time() - cpu


def judged(method: Method, judge: Judge, *, budgets: Sequence[int], seed: int) -> list[Row]:
    """Figures at each budget: of a single run for all of them where the method works anytime."""
    if method.anytime:
        runs = _search(method, judge, budgets, seed)
    else:
        runs = [_search(method, judge, [budget], seed)[0] for budget in budgets]
    return [{"queries": budget, **_figures(run, judge)} for budget, run in zip(budgets, runs, strict=True)]


def rows_of(records: Sequence[Record]) -> list[Row]:
    """One row a budget of each record, with what all its budgets share.

    Example:
        >>> rows_of([{"method": "snes", "budgets": [{"queries": 50}, {"queries": 150}], "took": {}, "versions": {}}])
        [{'method': 'snes', 'queries': 50}, {'method': 'snes', 'queries': 150}]
    """
    apart = ("key", "settings", "version", "budgets", "took", "versions")
    return [
        {**{name: value for name, value in record.items() if name not in apart}, **budget}
        for record in records
        for budget in record["budgets"]
    ]


def _search(method: Method, judge: Judge, budgets: Sequence[int], seed: int) -> list[Run]:
    """One run at the last budget, and what it gives at each."""
    oracle = judge.problem.oracle(queries=budgets[-1], labels_visible=method.needs_labels)
    oracle.ledger.listener = watch = Stopwatch()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome, correlation = method.search(oracle, queries=budgets[-1], seed=seed)
    total = watch.at(2**31)
    counts = dict(Counter(warning.category.__name__ for warning in caught))
    runs = []
    for budget in budgets:
        last = budget == budgets[-1]
        wall, cpu = total if last else watch.at(budget)
        # The forecasts are those of the whole run, so their correlation belongs to the last budget only.
        known = None if correlation is None or not last or math.isnan(correlation) else correlation
        used = min(budget, oracle.ledger.used)
        runs.append(Run(outcome.rungs(None if last else budget), used, wall, cpu, known, counts))
    return runs


def shared_facts(method: Method, judge: Judge) -> Record:
    """What all budgets of a cell share."""
    problem = judge.problem
    return {
        "kind": judge.kind,
        "needs_labels": method.needs_labels,
        "guarded": method.guarded,
        "metric": problem.metric.name,
        "goal": problem.metric.goal,
        "dim": judge.dim,
        "rows": {part: len(getattr(problem, part)) for part in ("train", "search", "accept", "test")},
        "cost_standard_error": judge.standard_error,
    }


def _figures(run: Run, judge: Judge) -> Row:
    original, verdict = judge.original, judge.verdict(run.rungs)
    natural, held = judge.problem.metric.natural, verdict.comparison
    returned = verdict.test if held.accepted else original.test
    return {
        "queries_used": run.used,
        "test_before": natural(original.test),
        "test_after": natural(verdict.test),
        "test_returned": natural(returned),
        "cost_before": original.test,
        "cost_after": verdict.test,
        "cost_returned": returned,
        "search_before": natural(original.search),
        "search_after": natural(verdict.search),
        "search_cost_before": original.search,
        "search_cost_after": verdict.search,
        "accepted": held.accepted,
        "accept_before": held.before,
        "accept_after": held.after,
        "accept_interval": list(held.interval),
        "accept_confidence": held.confidence,
        "seconds": run.seconds,
        "cpu_seconds": run.cpu_seconds,
        "rank_correlation": run.rank_correlation,
        "warnings": run.warnings,
    }
