"""Who asks: every answer of the metric comes through here, is counted, written down, and never paid twice."""

import math
from collections.abc import Callable, Sequence
from typing import Any, final

import torch
from torch import Tensor

from metricopt.metrics.constraint import Constraint
from metricopt.metrics.traffic import calls_beyond
from metricopt.run.ledger import Query, QueryLedger, Sheet
from metricopt.run.workers import Answered, Crew
from metricopt.task.answers import warned
from metricopt.task.base import Task
from metricopt.task.desk import Question, Said
from metricopt.task.noise import Noise
from metricopt.task.predictions import Predictions


@final
class Oracle:
    """Asks a task's metric about phi, within the ledger's grant.

    Args:
        task: The problem.
        ledger: Counts the queries; one without a limit if None.
        keep: Constraints, checked on the same predictions as the metric.

    Attributes:
        task: The problem.
        probe: What may be looked at of it without asking.
        ledger: Every answer so far.
        keep: The constraints.
        crew: Workers with a desk of the task's metric and those of the constraints; asked here if None.
        watch: Called with each phi (population, dim) that was asked about and the answers; nobody if None.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> oracle = Oracle(QuadraticTask(dim=2), QueryLedger(budget=5))
        >>> oracle.observe(torch.zeros(3, 2), stage="start").shape, oracle.ledger.remaining
        (torch.Size([3]), 2)
    """

    def __init__(self, task: Task, ledger: QueryLedger | None = None, *, keep: Sequence[Constraint] = ()) -> None:
        self.task = task
        self.probe = task.probe()
        self.ledger = QueryLedger() if ledger is None else ledger
        self.keep = tuple(keep)
        self.crew: Crew | None = None
        self.watch: Callable[[Tensor, list[Query]], None] | None = None
        self._sent: dict[int, tuple[Sheet, int | None]] = {}  # by their numbers, with the workers' tickets
        self._margins: list[float] | None = None
        self._noise = Noise(task, self.ledger)
        self._last: tuple[Tensor, Any] | None = None  # phi and its predictions

    @property
    def dim(self) -> int:
        """Size of phi."""
        return self.task.dim

    def observe(self, phi: Tensor, *, stage: str = "query", shown: Any = None) -> Tensor:
        """Each member's metric as a cost in [0, 1], NaN where it failed, (population,); one query each.

        Answers that the ledger's journal holds are taken from there. A member that breaks a constraint costs more
        than the first point queried if that keeps it, and more than 1 if not: it is never the best one.

        Args:
            phi: What is asked about, (population, dim).
            stage: Which part of a search asks.
            shown: Predictions that the metric is to see instead of those that the task would compute.
        """
        self.ledger.charge(len(phi), stage=stage)
        phi = phi.detach().cpu()  # where the ledger and its journal are
        if shown is not None:
            return self._observed(phi, stage, shown)
        return torch.cat([self._observed(part, stage) for part in phi.split(self.task.members_at_once)])

    @property
    def room(self) -> int:
        """How many more queries may be sent before an answer has to be received."""
        return 0 if self.crew is None else max(0, self.crew.count - len(self._sent))

    def send(self, phi: Tensor, *, stage: str) -> int:
        """Ask workers about one phi (1, dim) without waiting; the number under which `receive` gives the answer.

        Queries are numbered as they are sent and written down as they are answered. A run that is continued receives
        recalled answers in the order in which they had come, so that it goes the same way again.
        """
        assert self.crew is not None
        self.ledger.charge(1, stage=stage)
        number = len(self.ledger.queries) + len(self._sent)
        sheet = self.ledger.sheet(phi.detach().cpu(), stage=stage, first=number)
        self._last, ticket = None, None
        if sheet.missing:
            predictions = self.task.predictions(sheet.phi)
            self._last = sheet.phi, predictions
            self.margins()
            ticket = self.crew.ask(self._question(predictions))
        self._sent[number] = sheet, ticket
        return number

    def receive(self) -> tuple[int, float] | None:
        """The next answer to what was sent, waited for if need be: its number and cost, NaN if the metric failed.

        None if there is room all of a sudden, as it is where a user asks for more before telling.
        """
        assert self.crew is not None
        recalled = [number for number, (_, ticket) in self._sent.items() if ticket is None]
        if recalled:
            journal = self.ledger.journal
            number = recalled[0] if journal is None else min(recalled, key=journal.place)
            return number, float(self.entered(self._sent.pop(number)[0]))
        tickets = {ticket: number for number, (_, ticket) in self._sent.items() if ticket is not None}
        answered = self.crew.answer(tickets)
        if answered is None:
            return None
        number = tickets[answered.ticket]
        sheet, _ = self._sent.pop(number)
        self._write(sheet, 0, answered)
        return number, float(self.entered(sheet))

    def shown(self, phi: Tensor, *, rows: int) -> Tensor:
        """As `probe.shown`, of phi (population, dim) just observed: what the metric was shown is not computed again.

        Unless the answers came from a journal: then it is, the same way, for the same bits.
        """
        if not self.probe.shares_predictions or len(phi) > self.task.members_at_once:
            return self.probe.shown(phi, rows=rows)
        last, predictions = self._last or (None, None)
        if last is None or not torch.equal(last, phi):
            predictions = self.task.predictions(phi)
        return self.probe.shown_of(predictions, rows=rows)

    def _observed(self, phi: Tensor, stage: str, shown: Any = None) -> Tensor:
        sheet = self.ledger.sheet(phi, stage=stage)
        if sheet.missing:
            self.fill(sheet, shown)
        return self.entered(sheet)

    def fill(self, sheet: Sheet, shown: Any = None) -> None:
        """Write the missing answers on a sheet; all members are computed, so that bits do not depend on who asks."""
        self._last = None  # before the next ones take as much memory
        predictions, beyond = self.task.predictions(sheet.phi) if shown is None else shown, self._beyond()
        self._last = (sheet.phi, predictions) if shown is None else None
        if self.crew is not None:
            self._fill_by(self.crew, sheet, predictions)
            return
        kept = [self.task.values(predictions, each.metric, sheet.missing) for each in self.keep]
        # Beyond what was measured for the margins, which is counted where it is asked.
        made = self._beyond() - beyond
        broken = torch.zeros(len(sheet.phi), dtype=torch.float64)
        for constraint, values, margin in zip(self.keep, kept, self.margins(), strict=True):
            broken += constraint.violation(values, margin=margin)
        left, beyond = len(sheet.missing), self._beyond() - made
        for member, cost, value, failure in self.task.replies(predictions, sheet.missing):
            left -= 1
            so_far = self._beyond()
            query = Query(
                sheet.stage,
                cost if value is None else self.task.anchored(cost, value),
                value,
                failure=failure,
                part=getattr(shown, "rows", None) is not None,
                kept=tuple(float(values[member]) for values in kept),
                violation=float(broken[member]),
                extra=so_far - beyond,
            )
            beyond = so_far
            sheet.write(member, query, sync=left == 0 or not self.task.asks_cheaply)

    def _fill_by(self, crew: Crew, sheet: Sheet, predictions: Predictions) -> None:
        """The same by workers, in whatever order they answer."""
        self.margins()
        tickets = {crew.ask(self._question(predictions.member(member))): member for member in sheet.missing}
        while tickets:
            answered = crew.answer(tickets)
            assert answered is not None
            self._write(sheet, tickets.pop(answered.ticket), answered, part=predictions.rows is not None)

    def _question(self, predictions: Predictions) -> Question:
        for each in self.keep:
            predictions = self.task.predictions_for(predictions, each.metric)
        return Question(tuple(range(1 + len(self.keep))), predictions)

    def _write(self, sheet: Sheet, member: int, answered: Answered, *, part: bool = False) -> None:
        """Write down what a worker said of the metric and of the constraints."""
        said: Said = answered.answer or unanswered(1 + len(self.keep), answered.lost)
        reply = self.task.reply(said.answer(0, member), len(sheet.phi))
        kept = said.values[1:]
        for place in range(len(kept)):
            warned(said.answer(1 + place, member), len(sheet.phi))
        values = torch.tensor(kept, dtype=torch.float64)
        broken = [
            float(constraint.violation(value, margin=margin))
            for constraint, value, margin in zip(self.keep, values, self.margins(), strict=True)
        ]
        query = Query(
            sheet.stage,
            reply.cost if reply.value is None else self.task.anchored(reply.cost, reply.value),
            reply.value,
            failure=reply.failure,
            part=part,
            kept=kept,
            violation=sum(broken),
            extra=said.beyond + answered.lost * (1 + len(kept)),
        )
        sheet.write(member, query, sync=True)

    def entered(self, sheet: Sheet) -> Tensor:
        """Costs of a sheet that is filled in, (population,), with what they cost more for breaking constraints."""
        queries = sheet.enter()
        for query in queries:
            if query.value is not None:  # recalled answers too: later ones cost as they would have
                self.task.anchored(query.cost, query.value)
        if self.watch is not None:
            self.watch(sheet.phi, queries)
        costs = torch.tensor([query.cost for query in queries], dtype=torch.float64)
        violations = torch.tensor([query.violation for query in queries], dtype=torch.float64)
        if not bool(violations.any()):
            return costs
        first = next((query for query in self.ledger.queries if query.cost == query.cost), None)
        least = first.cost if first is not None and first.violation == 0 else 1.0
        return torch.where(violations > 0, costs.clamp_min(least) + violations, costs)

    @property
    def asks_cheaply(self) -> bool:
        """Whether any process may ask the metric and those of the constraints."""
        return self.task.asks_cheaply and not any(each.metric.costly or each.metric.hidden for each in self.keep)

    def _beyond(self) -> int:
        return calls_beyond([each.metric for each in self.keep] + self.task.metrics)

    def margins(self) -> list[float]:
        """How far inside each constraint's bound the search stays, in natural units, measured once at phi = 0."""
        if self._margins is None:
            measured = [self._noise.of_constraint(constraint, beyond=self._beyond) for constraint in self.keep]
            self.keep = tuple(constraint for constraint, _ in measured)
            self._margins = [constraint.margin(std) for constraint, std in measured]
        return self._margins

    def noise_std(self) -> float:
        """Standard deviation of one answer at phi = 0 due to the finite metric data."""
        return self._noise.std()

    def doubt(self, phi: Tensor, other: Tensor) -> float:
        """Standard error of the difference of two costs, each phi (dim,), due to the finite metric data."""
        return self._noise.doubt(phi, other)

    def lead(self, phi: Tensor, other: Tensor) -> float | None:
        """Standard errors by which one phi (dim,) is better than another; None of a metric that is not resampled."""
        return self._noise.lead(phi, other)


def unanswered(metrics: int, lost: int) -> Said:
    """What is known of a question that every worker has died over.

    Example:
        >>> unanswered(1, 3).failures
        ('3 workers died over it (out of memory?)',)
    """
    # The last of the lost calls is the query itself, not one beyond it.
    return Said((math.nan,) * metrics, (f"{lost} workers died over it (out of memory?)",) * metrics, -metrics)
