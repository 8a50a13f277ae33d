"""What is looked at while a run goes on: that the plan is kept, and what the first answers give away."""

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, final

import torch
from torch import Tensor

from metricopt.adapters.device import on_model
from metricopt.api.plan import CANDIDATES, Line, Plan, grant, plan_lines, plan_of, timed
from metricopt.api.rehearsal import rehearse, warn_of
from metricopt.core.errors import MetricError, MetricFailureWarning, SuspicionWarning
from metricopt.data.dataset import Data
from metricopt.data.splits import missing_classes
from metricopt.metrics.constraint import Constraint
from metricopt.metrics.suspicion import constancy, unsteadiness
from metricopt.metrics.traffic import asked_afresh, calls_beyond
from metricopt.run.ledger import Kind, Query
from metricopt.task.noise import DEAR
from metricopt.task.oracle import Oracle
from metricopt.task.supervised import SupervisedTask

_FEW_QUERIES, _FEW_ROWS = 2, 20
STARTS_SECONDS, STARTS_SHARE = 20.0, 0.1
"""What loss finetuning before the search may take: so many seconds, or that share of the time of all queries."""
SLOW, PASS = 2.0, 1.0
"""Seconds of a pass over all search rows from where they go through the network in parts, of about so many seconds."""


class Again(NamedTuple):
    """The metric asked once more about the original: its value, seconds of the call and of the whole query.

    And why there is no value, where there is none.
    """

    value: float
    call: float
    query: float
    failure: str = ""


@final
class Watch:
    """Keeps a run to its plan and says at once what makes no sense.

    Args:
        oracle: Who asks.
        sets: Training, search and held-out data.
        queries: Of the search.
        searches: Whether an adapter is searched; otherwise weights are finetuned.

    Attributes:
        plan: What was stated; after the first answer with how long it takes about.
    """

    def __init__(self, oracle: Oracle, sets: Mapping[str, Data], *, queries: int, searches: bool = True) -> None:
        assert isinstance(oracle.task, SupervisedTask)
        self._oracle, self._task, self._queries, self._searches = oracle, oracle.task, int(queries), searches
        self._spent: dict[Kind, int] = {
            "queries": oracle.ledger.used,
            "resamples": oracle.ledger.resamples,
            "checks": oracle.ledger.checks,
            "decisions": oracle.ledger.decisions,
            "extra": oracle.ledger.extra,
        }
        self._seen = _Seen()
        self._lost: tuple[Line, ...] = ()
        self._query = 0.0  # seconds
        self.plan: Plan = plan_of(self._task, self._planned(), notes=notes_on(sets, queries))

    def begin(self) -> None:
        """State the plan; from now on nothing beyond it is granted."""
        lost = {} if self._oracle.ledger.journal is None else self._oracle.ledger.journal.lost
        kinds: dict[str, Kind] = {"decision": "decisions", "constraint": "checks"}
        self._lost = tuple(
            Line("calls before that nobody answered", lost[word], kinds[word]) for word in kinds if word in lost
        )
        self.plan = replace(self.plan, lines=self._planned())
        self._task.beat = self._oracle.ledger.pulse.beat
        self._task.most_rows = rows_at_once(self._oracle)
        warn_of(rehearse(self._task, self.plan))
        self._say(*(note for note in self.plan.notes if note.startswith(("only", "nothing"))))
        self._state()
        self._oracle.watch = self._look
        self._oracle.ledger.pulse.phase("first answer")

    def answered(self) -> None:
        """Ask once more about the original and state the plan with what that took.

        Where it was queried already, the two answers are compared; where it was not, this is the first of all calls,
        and a metric that has no answer is an error.
        """
        oracle, task = self._oracle, self._task
        first = next((query for query in oracle.ledger.queries if query.value is not None), None)
        again = asked_again(oracle)
        if first is not None and first.value is not None:
            self._say(unsteadiness(task.metric, first.value, again.value), *_broken(oracle.keep, first.kept))
        elif math.isnan(again.value):
            why = again.failure or "no reason given"
            raise MetricError(f"the metric failed at phi = 0, the original model; expected a number: {why}")
        else:
            task.anchored(0.0, again.value)
        if again.call > DEAR:
            task.metric = task.metric.dear()
        self._query = again.query
        self.plan = timed(self.plan, self._planned(), query=again.query, call=again.call, workers=self._workers)
        self._state()

    def affordable(self, seconds: float, wanted: int) -> int:
        """How many steps of loss finetuning, each of so many seconds, are taken; the same when a run is continued."""
        budget = max(STARTS_SECONDS, STARTS_SHARE * self._queries * self._query)

        def decided() -> Tensor:
            most = budget / max(seconds, 1e-9)
            # Coarsely, so that another day's load does not give another number.
            steps = 2 ** int(math.log2(most)) if most >= 8 else 0
            return torch.tensor([float(min(steps, wanted))], dtype=torch.float64)

        found = self._oracle.ledger.once("steps of loss finetuning", decided)
        assert found is not None
        return int(found)

    def _say(self, *sentences: str) -> None:
        for sentence in filter(None, sentences):
            warnings.warn(sentence, SuspicionWarning, stacklevel=4)

    @property
    def _workers(self) -> int:
        return 1 if self._oracle.crew is None else self._oracle.crew.count

    def _planned(self) -> tuple[Line, ...]:
        lines = plan_lines(
            self._task.metric,
            self._oracle.keep,
            queries=self._queries,
            candidates=CANDIDATES if self._searches else 1,
            searches=self._searches,
            workers=self._workers,
        )
        return lines + self._lost

    def _state(self) -> None:
        grant(self._oracle.ledger, self.plan, self._spent)
        self._oracle.ledger.note("plan", self.plan.to_dict())

    def _look(self, phi: Tensor, queries: list[Query]) -> None:
        self._say(self._seen.constant(phi, queries, self._task))


class _Seen:
    """Phi asked about as long as all answers are the same."""

    def __init__(self) -> None:
        self._phi: list[Tensor] = []
        self._values: list[float] = []
        self._enough = 10

    def constant(self, phi: Tensor, queries: list[Query], task: SupervisedTask) -> str:
        if not self._enough:
            return ""
        for member, query in zip(phi, queries, strict=True):
            if query.value is not None:
                self._phi.append(member)
                self._values.append(query.value)
        if len(set(self._values)) > 1:
            self._enough = 0
        if not self._enough or len(self._values) < self._enough:
            return ""
        seen = torch.stack(self._phi)
        shown = task.predictions(seen).read
        sentence = constancy(task.metric, self._values, seen if shown is None else shown, task.search.truth[0])
        self._enough = 0 if sentence else 2 * self._enough
        return sentence


def asked_again(oracle: Oracle) -> Again:
    """The metric asked once more about phi = 0, or what it had answered then if the run is continued."""
    task, key = oracle.task, "the original again"
    began = time.perf_counter()
    predictions = task.predictions(torch.zeros(1, task.dim))
    predicted = time.perf_counter() - began
    failures = []

    def ask() -> Tensor:
        with asked_afresh(task.metrics), warnings.catch_warnings():
            if all(query.value is None for query in oracle.ledger.queries):
                warnings.simplefilter("ignore", MetricFailureWarning)  # the error says it
            (reply,) = task.replies(predictions, [0])
        failures.append(reply.failure)
        return torch.tensor([math.nan if reply.value is None else reply.value], dtype=torch.float64)

    found = oracle.ledger.once(key, ask, calls=1, beyond=lambda: calls_beyond(task.metrics))
    assert found is not None
    call = oracle.ledger.seconds[key]
    return Again(float(found), call, predicted + call, "".join(failures))


def rows_at_once(oracle: Oracle) -> int | None:
    """How many rows a slow network is given at the same time, so that it is never silent for long; None if it is not.

    Told from a pass over a few rows, and the same when a run is continued: the last bits of sums depend on it.
    """
    task = oracle.task
    assert isinstance(task, SupervisedTask)

    def decided() -> Tensor:
        pace = _seconds_a_row(task, 8)
        if pace * len(task.search) > SLOW and 256 * pace < PASS:  # of a few rows most is not theirs
            pace = _seconds_a_row(task, 256)
        parts = pace * len(task.search) > SLOW
        rows = 2.0 ** max(2, int(math.log2(max(PASS / pace, 1.0)))) if parts else 0.0
        return torch.tensor([rows], dtype=torch.float64)

    found = oracle.ledger.once("rows at the same time", decided)
    assert found is not None
    return int(found) or None


def _seconds_a_row(task: SupervisedTask, rows: int) -> float:
    rows = min(rows, len(task.search))
    inputs = on_model(task.model, task.search.inputs_at(slice(0, rows)))
    taken = []
    for _ in range(2):  # the first pass of a network may take much longer than all others
        began = time.perf_counter()
        with torch.no_grad():
            task.model.output(torch.zeros(task.dim), inputs)
        taken.append(time.perf_counter() - began)
        if taken[0] < SLOW / 1000:
            break
    return min(taken) / rows


def _broken(keep: Sequence[Constraint], values: Sequence[float]) -> list[str]:
    """A sentence for each constraint that the original model does not keep."""
    return [
        f"the constraint {constraint.text} fails for the original model, whose value is "
        f"{'not known, as its metric failed' if math.isnan(value) else f'{value:.4g}'}: only a model that keeps it "
        f"will be accepted"
        for constraint, value in zip(keep, values, strict=True)
        if not constraint.holds(value)
    ]


def notes_on(sets: Mapping[str, Data], queries: int) -> list[str]:
    """What the user should know of data and budget before anything is spent."""
    notes = []
    for name in (name for name in sets if name != "train"):
        lacking = missing_classes(sets["train"], sets[name])
        if lacking:
            some = ", ".join(map(str, lacking[:10])) + (" ..." if len(lacking) > 10 else "")
            notes.append(f"{name} has no example of class {some}, which train has")
    if queries < _FEW_QUERIES:
        notes.append(f"nothing can be found with queries={queries}, the first of which is the original model's")
    rows = len(sets["holdout"]) if "holdout" in sets else _FEW_ROWS
    if rows < _FEW_ROWS:
        notes.append(
            f"only a gain on at least 4 of the {rows} held-out rows can be confirmed: pass more rows, or a holdout"
        )
    return notes
