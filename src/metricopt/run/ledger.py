"""The query ledger: every metric evaluation is counted here, granted or refused here, and nowhere else."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Literal, final

import torch
from torch import Tensor

from metricopt.core.errors import BudgetError, FileFormatError, PlanError
from metricopt.run.events import Event
from metricopt.run.journal import Journal, whole
from metricopt.run.pulse import Pulse

Kind = Literal["queries", "resamples", "checks", "decisions", "extra"]
"""What a call of a metric is for; `extra` are attempts after an accident, less answers that were remembered."""


@dataclass(frozen=True)
class Query:
    """One metric evaluation: which stage asked, and the cost that came back (NaN when the metric failed).

    Attributes:
        stage: Which part of the search asked.
        cost: The answer as a cost in [0, 1].
        value: The answer in natural units, where these are known.
        failure: Why there is no answer.
        kept: Values of the constraints' metrics on the same predictions.
        violation: By how much the constraints are broken, summed, in units of cost; 0 if they hold.
        extra: Calls made beyond the one for the metric and one for each constraint: further attempts of a metric
            outside, less answers that it remembered.
        part: Whether it is about some of the rows only, so that it compares with no other.

    Example:
        >>> Query("search", 0.25).cost
        0.25
    """

    stage: str
    cost: float
    value: float | None = None
    failure: str = ""
    kept: tuple[float, ...] = ()
    violation: float = 0.0
    extra: int = 0
    part: bool = False


@dataclass
class QueryLedger:
    """Counts metric evaluations against a grant.

    Attributes:
        budget: Number of queries granted; None for no limit.
        queries: Every query made, in order.
        listener: Called after each entry, for progress displays and logs.
        resamples: Evaluations of the metric on resampled rows of predictions already paid for (noise, acceptance).
        checks: Evaluations of constraints' metrics on predictions already paid for.
        decisions: Calls of the metric for the decision whether to keep what was found.
        extra: Further attempts of metrics outside after an accident, less answers that these remembered.
        seconds: How long the calls beyond the queries took, by the key they are recalled by.
        limits: The most calls of each kind that the plan allows for; more are refused. Kinds not named have no limit.
        max_failures: Failed queries after which a search stops; None for no limit.
        journal: Remembers the answers beyond this process.
        pulse: Tells which phase the run is in.

    Example:
        >>> ledger = QueryLedger(budget=3)
        >>> ledger.charge(2, stage="collect")
        >>> ledger.enter(torch.tensor([0.5, 0.4]), stage="collect")
        >>> ledger.remaining
        1
        >>> ledger.charge(2, stage="search")
        Traceback (most recent call last):
        ...
        metricopt.core.errors.BudgetError: stage 'search' asks for 2 metric queries, but 1 of 3 is left; ...
    """

    budget: int | None = None
    queries: list[Query] = field(default_factory=list)
    resamples: int = 0
    listener: Callable[["QueryLedger"], None] | None = None
    checks: int = 0
    decisions: int = 0
    extra: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    limits: dict[Kind, int] = field(default_factory=dict)
    max_failures: int | None = None
    journal: Journal | None = None
    pulse: Pulse = field(default_factory=Pulse, repr=False, compare=False)
    _charged: int = 0
    _counted: set[str] = field(default_factory=set)

    def charge(self, count: int, *, stage: str) -> None:
        """Take `count` queries from the grant before they are made, so that even a crash cannot hide them."""
        if self.budget is not None and self._charged + count > self.budget:
            left = self.budget - self._charged
            raise BudgetError(
                f"stage {stage!r} asks for {count} metric queries, but {left} of {self.budget} "
                f"{'is' if left == 1 else 'are'} left; grant more queries"
            )
        self.check("queries", count)
        self._charged += count

    def enter(self, costs: Tensor, *, stage: str) -> None:
        """Write down what charged queries answered."""
        self._enter([Query(stage, float(cost)) for cost in costs])

    def sheet(self, phi: Tensor, *, stage: str, first: int | None = None) -> "Sheet":
        """Where the answers to charged queries about phi (population, dim) are written as they come.

        Their numbers begin with `first`, or with the next one; others may be under way.
        """
        return Sheet(self, phi, stage, len(self.queries) if first is None else first)

    def restore(self, queries: list[Query]) -> None:
        """Take over queries of a saved ledger."""
        self._enter(queries)

    def once(
        self,
        key: str,
        ask: Callable[[], Tensor | None],
        *,
        kind: Kind = "resamples",
        calls: int = 0,
        beyond: Callable[[], int] = lambda: 0,
    ) -> Tensor | None:
        """What metric calls beyond the queries answer, (n,) float64; from the journal if they were paid for before.

        Args:
            key: Under which the answers are recalled.
            ask: Makes the calls; None instead of answers if it made none.
            kind: What the calls are for.
            calls: How many they are; counted once, whether they are made now or were by a run that is continued.
            beyond: How many calls the metric has made so far beyond those it was asked for.

        Example:
            >>> ledger = QueryLedger()
            >>> ledger.once("noise", lambda: torch.tensor([0.5]), calls=1), ledger.calls
            (tensor([0.5000]), 1)
        """
        known = None if self.journal is None else self.journal.asked(key)
        if known is not None:
            if key not in self._counted:
                self._counted.add(key)
                self.count(kind, calls)
                self.count("extra", known.extra)
                self.seconds[key] = known.seconds
            numbers = [math.nan if value is None else float(value) for value in known.values]
            return torch.tensor(numbers, dtype=torch.float64)
        self.check(kind, calls)
        before, began = beyond(), time.perf_counter()
        found = ask()
        if found is None:
            return None
        extra, self.seconds[key] = beyond() - before, time.perf_counter() - began
        self._counted.add(key)
        self.count(kind, calls)
        self.count("extra", extra)
        more = {"extra": extra} if extra else {}
        self.note("asked", {"key": key, "values": found.tolist(), "seconds": self.seconds[key], **more})
        return found

    def recalls(self, key: str) -> bool:
        """Whether calls under this key were made by a run that is continued, and not by this one."""
        return key not in self._counted and self.journal is not None and self.journal.asked(key) is not None

    def count(self, kind: Kind, calls: int) -> None:
        """Count calls of a kind that is not queries."""
        setattr(self, kind, getattr(self, kind) + calls)
        self.check(kind, 0)

    def check(self, kind: Kind, calls: int) -> None:
        """Raises if so many further calls would be more than the plan says; that is a mistake of this library.

        Example:
            >>> QueryLedger(limits={"decisions": 3}).check("decisions", 4)
            Traceback (most recent call last):
            ...
            metricopt.core.errors.PlanError: 4 calls of a metric (decisions) would be made, but the plan ...
        """
        made = self._charged if kind == "queries" else getattr(self, kind)
        most = self.limits.get(kind)
        if most is not None and made + calls > most:
            raise PlanError(
                f"{made + calls} calls of a metric ({kind}) would be made, but the plan says at most {most}; this is "
                f"an error inside metricopt: please report it"
            )

    def note(self, event: str, fields: Event) -> None:
        """Write an event beside the queries into the journal, if there is one."""
        if self.journal is not None:
            self.journal.note(event, fields)

    def _enter(self, queries: list[Query]) -> None:
        self.queries.extend(queries)
        self.count("checks", sum(len(query.kept) for query in queries))
        self.count("extra", sum(query.extra for query in queries))
        if self.listener is not None:
            self.listener(self)

    @property
    def used(self) -> int:
        """Queries charged so far."""
        return self._charged

    @property
    def remaining(self) -> int:
        """Queries left; a very large number when there is no limit."""
        return 2**31 if self.budget is None else self.budget - self._charged

    @property
    def calls(self) -> int:
        """Every call of the metric and of constraints' metrics: queries, noise, constraints and the decision."""
        return len(self.queries) + self.resamples + self.checks + self.decisions + self.extra

    @property
    def failures(self) -> int:
        """Queries that brought no usable answer."""
        return sum(query.cost != query.cost for query in self.queries)

    @property
    def stopped(self) -> str:
        """Why no further query should be made; empty as long as the metric fails seldom enough."""
        if self.max_failures is None or self.failures <= self.max_failures:
            return ""
        last = next((query.failure for query in reversed(self.queries) if query.failure), "no reason given")
        return (
            f"{self.failures} of {len(self.queries)} metric queries failed, more than the {self.max_failures} allowed; "
            f"the last one: {last}"
        )

    def best_so_far(self) -> Tensor:
        """Lowest cost after each query of those about all rows that break no constraint, (queries,)."""
        allowed = [query.cost if query.violation == 0 and not query.part else math.inf for query in self.queries]
        costs = torch.tensor(allowed, dtype=torch.float64)
        return torch.cummin(torch.nan_to_num(costs, nan=math.inf), dim=0).values if len(costs) else costs


@final
class Sheet:
    """The answers to one batch of queries: those known from a journal, and those still missing.

    Attributes:
        phi: What is asked about, (population, dim).
        stage: Which part of the search asks.
        missing: Members without an answer.

    Example:
        >>> sheet = QueryLedger().sheet(torch.zeros(2, 3), stage="search")
        >>> sheet.missing
        [0, 1]
        >>> for member in sheet.missing:
        ...     sheet.write(member, Query("search", 0.5))
        >>> [query.cost for query in sheet.enter()]
        [0.5, 0.5]
    """

    def __init__(self, ledger: QueryLedger, phi: Tensor, stage: str, first: int) -> None:
        self.phi, self.stage = phi, stage
        self._ledger, self._first = ledger, first
        known = [self._recalled(member) for member in range(len(phi))]
        self._answers = {member: query for member, query in enumerate(known) if query is not None}
        self.missing = [member for member in range(len(phi)) if member not in self._answers]

    def write(self, member: int, query: Query, *, sync: bool = False) -> None:
        """Write down one member's answer, at once into the journal."""
        self._answers[member] = query
        journal = self._ledger.journal
        if journal is not None:
            fields = {key: value for key, value in asdict(query).items() if value or key in ("stage", "cost", "value")}
            journal.query(self._first + member, self.phi[member], fields, sync=sync)

    def enter(self) -> list[Query]:
        """Enter all answers into the ledger, in the order of the members."""
        queries = [self._answers[member] for member in range(len(self.phi))]
        self._ledger._enter(queries)
        return queries

    def _recalled(self, member: int) -> Query | None:
        journal = self._ledger.journal
        event = None if journal is None else journal.recall(self._first + member, self.phi[member])
        return None if event is None else _query(event)


def _query(event: Event) -> Query:
    try:
        cost = math.nan if event["cost"] is None else float(event["cost"])
        value = None if event.get("value") is None else float(event["value"])
        kept = tuple(math.nan if kept is None else float(kept) for kept in event.get("kept", ()))
        violation, failure = float(event.get("violation", 0.0)), str(event.get("failure", ""))
        return Query(
            str(event["stage"]),
            cost,
            value,
            failure,
            kept,
            violation,
            whole(event.get("extra", 0)),
            bool(event.get("part")),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        why = f"{error!r:.200}"
        raise FileFormatError(f"a query of the event log is damaged ({why}); expected stage and cost") from error
