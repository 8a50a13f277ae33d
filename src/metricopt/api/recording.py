"""What a run writes down and who works for it: its ledger, its first event, its journal, its workers."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from metricopt import __version__
from metricopt.adapters.saved import adapter_facts
from metricopt.core.errors import BudgetError
from metricopt.data.dataset import Data
from metricopt.data.splits import facts_of
from metricopt.metrics import Constraint
from metricopt.metrics.fingerprint import metric_facts, metric_fingerprint
from metricopt.metrics.within_parts import as_a_whole
from metricopt.run.events import Event, Listener
from metricopt.run.journal import open_journal
from metricopt.run.ledger import QueryLedger
from metricopt.run.workers import hired
from metricopt.task.desk import desk_of
from metricopt.task.oracle import Oracle
from metricopt.task.supervised import SupervisedTask


def granted(ledger: QueryLedger | None, queries: int, max_failures: int | None) -> QueryLedger:
    """A ledger with room for the queries; the user's own, whose grant stays what it is."""
    ledger = QueryLedger() if ledger is None else ledger
    if ledger.budget is None:
        ledger.budget = ledger.used + queries
    if ledger.remaining < queries:
        raise BudgetError(
            f"the ledger grants {ledger.remaining} more metric queries, but queries is {queries}; expected as many: "
            f"grant more, or ask for fewer"
        )
    ledger.max_failures = max(10, queries // 5) if max_failures is None else max_failures
    return ledger


def start_of(
    task: SupervisedTask, settings: Mapping[str, Any], *, keep: Sequence[Constraint], sets: Mapping[str, Data]
) -> Event:
    """What a run is determined by; one that differs in any of it is another run."""
    return {
        "settings": {
            **settings,
            "loss": task.loss_rule.name,
            "sampling": task.sampling,
            "batch_size": task.batch_size,
            "learn_from_val": task.labels_visible,
        },
        "metric": metric_facts(as_a_whole(task.metric)),
        "constraints": [
            {"text": each.text, "confidence": each.confidence, "function": metric_fingerprint(each.metric)}
            for each in keep
        ],
        "model": {**adapter_facts(task.model), "dim": task.dim},
        "data": facts_of(sets),
        "versions": {"metricopt": __version__, "torch": torch.__version__},
    }


@contextmanager
def recorded(
    ledger: QueryLedger, start: Event, *, folder: Path | None, resume: bool, listeners: Sequence[Listener]
) -> Iterator[None]:
    """Within this context all that the ledger counts goes into the journal of a run, and to its listeners."""
    with open_journal(folder, start, resume=resume, listeners=listeners) as journal:
        ledger.journal, ledger.pulse.tell = journal, journal.tell
        try:
            yield
        finally:
            ledger.journal = ledger.pulse.tell = None


@contextmanager
def staffed(
    oracle: Oracle, task: SupervisedTask, holdout: Data | None, *, workers: int, executor: Any
) -> Iterator[None]:
    """Within this context workers ask the metric and those of the constraints, in the search and for the decision."""
    metrics = [task.metric, *(each.metric for each in oracle.keep)]
    desk = desk_of(metrics, {"search": task.search, "holdout": task.search if holdout is None else holdout}, task.model)
    with hired(desk, workers=workers, executor=executor) as crew:
        oracle.crew = crew
        try:
            yield
        finally:
            oracle.crew = None
