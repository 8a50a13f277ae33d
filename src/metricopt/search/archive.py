"""Everything a search has observed, its best point so far, and how that point came about."""

import torch
from torch import Tensor

from metricopt.errors import ObservationError
from metricopt.records import Outcome
from metricopt.task import Task


class Archive:
    """Queries a task within a limit and remembers every answer.

    Attributes:
        points: Every phi observed, (n, dim).
        costs: Their costs, NaN where the metric failed, (n,).
        best: The phi of lowest cost so far, (dim,): where the search goes on.
        best_cost: Its cost.

    Example:
        >>> from metricopt.tasks.synthetic import QuadraticTask
        >>> task = QuadraticTask(dim=2)
        >>> archive = Archive(task, 3)
        >>> archive.observe(torch.stack([torch.zeros(2), task.optimum]), stage="start")
        >>> torch.equal(archive.best, task.optimum), archive.left
        (True, 1)
    """

    def __init__(self, task: Task, queries: int, *, caution: float = 0.0) -> None:
        self.task, self.queries, self.caution = task, queries, caution
        self.points = torch.zeros(0, task.dim)
        self.costs = torch.zeros(0)
        self.best, self.best_cost = torch.zeros(task.dim), float("inf")
        self._returned, self._returned_cost = self.best, self.best_cost
        self._incumbents: list[tuple[int, Tensor]] = []

    @property
    def left(self) -> int:
        """Queries not yet made; none once the metric has failed too often."""
        return 0 if self.task.ledger.stopped else self.queries - len(self.costs)

    def observe(self, points: Tensor, *, stage: str) -> None:
        """Query as many of the points as the limit allows, all in one call."""
        points = points[: self.left]
        if not len(points):
            return
        self.task.stage = stage
        costs = self.task.observe(points).float()
        self.points, self.costs = torch.cat([self.points, points]), torch.cat([self.costs, costs])
        cost, index = torch.nan_to_num(costs, nan=float("inf")).min(0)
        if float(cost) < self.best_cost:
            self.best, self.best_cost = points[index].clone(), float(cost)
            self._judge()
        self._incumbents.append((len(self.costs), self._returned))

    def _judge(self) -> None:
        """Return the best point instead of the one returned so far if its gain is more than luck.

        The lowest of many noisy costs is partly luck, so a gain must exceed `caution` standard errors of the paired
        difference on the same rows. The search itself goes on from the lowest cost: held back like this too, it took
        twice the queries.
        """
        gain = self._returned_cost - self.best_cost
        if gain == float("inf") or not self.caution or gain > self.caution * self.task.doubt(self.best, self._returned):
            self._returned, self._returned_cost = self.best, self.best_cost
            fields = {"index": len(self.task.ledger.queries) - 1, "phi": self.best, "cost": self.best_cost}
            self.task.ledger.note("incumbent", fields)

    def known(self) -> tuple[Tensor, Tensor]:
        """Points and costs of the queries that were answered."""
        answered = ~self.costs.isnan()
        return self.points[answered], self.costs[answered]

    def outcome(self) -> Outcome:
        """The best point that was more than luck, and which that was after each call."""
        if self.best_cost == float("inf"):
            raise ObservationError(f"none of {len(self.costs)} metric queries was answered; see the warnings above")
        return Outcome(self._returned, tuple(self._incumbents))
