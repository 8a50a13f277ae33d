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
        best: The best phi so far, (dim,): each one gained more over its predecessor than noise is likely to give.
        best_cost: Its cost.
    """

    def __init__(self, task: Task, queries: int, *, caution: float = 0.0) -> None:
        self.task, self.queries, self.caution = task, queries, caution
        self.points = torch.zeros(0, task.dim)
        self.costs = torch.zeros(0)
        self.best, self.best_cost = torch.zeros(task.dim), float("inf")
        self._incumbents: list[tuple[int, Tensor]] = []

    @property
    def left(self) -> int:
        """Queries not yet made."""
        return self.queries - len(self.costs)

    def observe(self, points: Tensor, *, stage: str) -> None:
        """Query as many of the points as the limit allows, all in one call."""
        points = points[: self.left]
        if not len(points):
            return
        self.task.stage = stage
        costs = self.task.observe(points).float()
        self.points, self.costs = torch.cat([self.points, points]), torch.cat([self.costs, costs])
        cost, index = torch.nan_to_num(costs, nan=float("inf")).min(0)
        if self._is_better(points[index], float(cost)):
            self.best, self.best_cost = points[index].clone(), float(cost)
        self._incumbents.append((len(self.costs), self.best))

    def _is_better(self, phi: Tensor, cost: float) -> bool:
        """Whether the gain exceeds `caution` standard errors of the paired difference on the same rows.

        The lowest of many noisy costs is mostly luck; without this, more queries made test metrics worse.
        """
        if cost >= self.best_cost or self.best_cost == float("inf") or not self.caution:
            return cost < self.best_cost
        return self.best_cost - cost > self.caution * self.task.doubt(phi, self.best)

    def known(self) -> tuple[Tensor, Tensor]:
        """Points and costs of the queries that were answered."""
        answered = ~self.costs.isnan()
        return self.points[answered], self.costs[answered]

    def outcome(self) -> Outcome:
        """The best point, and the best after each call."""
        if self.best_cost == float("inf"):
            raise ObservationError(f"none of {len(self.costs)} metric queries was answered; see the warnings above")
        return Outcome(self.best, tuple(self._incumbents))
