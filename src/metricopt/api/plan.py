"""What a run will cost, stated before the first call of the metric and never exceeded."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch

from metricopt.acceptance.gathering import decision_calls
from metricopt.adapters.device import on_model
from metricopt.metrics.constraint import Constraint
from metricopt.metrics.metric import Metric
from metricopt.metrics.traffic import attempts_of
from metricopt.metrics.within_parts import WithinParts
from metricopt.run.ledger import Kind, QueryLedger
from metricopt.run.live import planned
from metricopt.run.workers import most_deaths
from metricopt.task.noise import noise_calls
from metricopt.task.supervised import SupervisedTask

CANDIDATES = 2
"""What is judged beside the original at most: a plain step and the search's best."""


class Line(NamedTuple):
    """The most calls of metrics that one phase of a run makes.

    Attributes:
        phase: What it is called.
        calls: How many at most.
        kind: As what the ledger counts them.
    """

    phase: str
    calls: int
    kind: Kind


@dataclass(frozen=True)
class Plan:
    """The phases of a run with the most calls each makes, and what the metric is given.

    Attributes:
        metric: Name of the metric.
        lines: The phases, in order.
        given: What the metric's function is given.
        loss: What is followed where the metric is not asked.
        notes: What the user should know before anything is spent.
        seconds: About how long the calls and predictions take together; None before one was timed.

    Example:
        >>> plan = Plan("f1", (Line("search", 30, "queries"), Line("decision", 36, "decisions")), "labels", "mse_loss")
        >>> print(plan)
        plan: at most 66 calls of f1: 30 search, 36 decision; it is given labels; loss: mse_loss
        >>> plan.calls, plan.limits
        (66, {'queries': 30, 'decisions': 36})
    """

    metric: str
    lines: tuple[Line, ...]
    given: str
    loss: str
    notes: tuple[str, ...] = ()
    seconds: float | None = None

    @property
    def calls(self) -> int:
        """All calls at most."""
        return sum(line.calls for line in self.lines)

    @property
    def limits(self) -> dict[Kind, int]:
        """The most calls of each kind."""
        limits: dict[Kind, int] = {}
        for line in self.lines:
            limits[line.kind] = limits.get(line.kind, 0) + line.calls
        return limits

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the log and the report."""
        return {
            "metric": self.metric,
            "lines": [list(line) for line in self.lines],
            "calls": self.calls,
            "given": self.given,
            "loss": self.loss,
            "notes": list(self.notes),
            "seconds": self.seconds,
        }

    def __str__(self) -> str:
        return planned(self.to_dict())


def plan_lines(
    metric: Metric,
    keep: Sequence[Constraint],
    *,
    queries: int,
    candidates: int = CANDIDATES,
    searches: bool = True,
    workers: int = 1,
) -> tuple[Line, ...]:
    """The phases of a run and of the decision between so many candidates and the original.

    A run that searches an adapter measures the metric's noise; one that finetunes weights does not. Workers that die
    may take calls with them, which are made again.

    Example:
        >>> from metricopt.metrics import as_metric
        >>> [tuple(line)[:2] for line in plan_lines(as_metric("f1").dear(), (), queries=12)]
        [('search', 12), ('noise', 1), ('decision', 36)]
    """
    noise = noise_calls(metric, keep, queries=queries) if searches else noise_calls(metric.dear(), keep, queries=0)
    checked = [candidates * (1 + _of_one(each.metric)) for each in keep]
    lines = [
        Line("search", queries, "queries"),
        Line("noise", 1 + noise, "resamples"),  # 1: the original asked twice
        Line("constraints in the search", len(keep) * (queries + 1), "checks"),
        Line("decision", decision_calls(metric, candidates) + (0 if searches else 1), "decisions"),  # 1: the refit
        Line("constraints in the decision", sum(checked), "checks"),
    ]
    own = sum(line.calls for line in lines if line.kind != "checks")
    further = own * (attempts_of(metric) - 1)
    for each, check in zip(keep, checked, strict=True):
        further += (queries + 1 + check) * (attempts_of(each.metric) - 1)
    parted = isinstance(metric.function, WithinParts)
    lines.append(Line("each further fold" if parted else "further attempts after accidents", further, "extra"))
    if workers > 1:
        lines.append(Line("asked again should workers die", most_deaths(workers) * (1 + len(keep)), "extra"))
    return tuple(line for line in lines if line.calls)


def plan_of(task: SupervisedTask, lines: tuple[Line, ...], *, notes: Sequence[str] = ()) -> Plan:
    """The plan of a run on a task."""
    return Plan(task.metric.name, lines, given_to(task), task.loss_rule.name, tuple(notes))


def given_to(task: SupervisedTask) -> str:
    """What the metric's function is given for all rows, told from a pass over the first two.

    Example:
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> from metricopt.data.dataset import Examples
        >>> from metricopt.metrics import mcr
        >>> data = Examples(torch.zeros(40, 3), torch.arange(40) % 2)
        >>> model = adapt(torch.nn.Linear(3, 2), OutputAffine())
        >>> given_to(SupervisedTask(model, metric=mcr(), train=data, search=data))
        'labels: int64 (40,), targets: int64 (40,)'
    """
    metric, data = task.metric, task.search
    if metric.on == "outputs":
        return f"all that the network gives, and {'rows' if metric.hidden else 'targets'}"
    if metric.on == "model" or task.model.reader is None:
        return metric.describe(None, None)
    with torch.no_grad():
        inputs = on_model(task.model, data.inputs_at(slice(0, 2)))
        first = task.model.outputs(torch.zeros(1, task.dim), inputs)[0].cpu()
    per_row = len(first) // min(2, len(data))
    targets, groups = data.truth
    outputs = first[:1].expand(per_row * len(data), *first.shape[1:])
    return metric.describe(outputs, targets, groups)


def timed(plan: Plan, lines: tuple[Line, ...], *, query: float, call: float, workers: int = 1) -> Plan:
    """The plan once a query and a call of the metric were timed, in seconds; workers share the calls."""
    search = sum(line.calls for line in lines if line.kind == "queries")
    others = sum(line.calls for line in lines if line.kind not in ("queries", "extra"))
    seconds = search * query + others * call if workers == 1 else search * (query - call)
    seconds += 0.0 if workers == 1 else (search + others) * call / workers
    return replace(plan, lines=lines, seconds=round(seconds, 1))


def grant(ledger: QueryLedger, plan: Plan, spent: dict[Kind, int]) -> None:
    """Let the ledger refuse what would exceed the plan, beyond what it had counted before the run."""
    ledger.limits = {kind: spent.get(kind, 0) + calls for kind, calls in plan.limits.items()}
    for kind in ("resamples", "checks", "decisions"):
        ledger.limits.setdefault(kind, spent.get(kind, 0))
    ledger.limits.setdefault("extra", max(0, spent.get("extra", 0)))


def _of_one(metric: Metric) -> int:
    """Calls about one candidate, the original left out."""
    return decision_calls(metric, 1) // 2
