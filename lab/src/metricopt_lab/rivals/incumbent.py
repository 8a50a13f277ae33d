"""The best vector so far: what every rival that queries the metric keeps."""

import math
from typing import final

import torch
from torch import Tensor

from metricopt.core.records import Outcome
from metricopt.task.oracle import Oracle

_AT_ONCE = 50  # vectors a call: outputs of more would need much memory and be no faster

WORST = 1.0
"""What a failed query counts as: the highest cost there is."""


@final
class Incumbent:
    """Asks an oracle within a budget and remembers the best vector after each query.

    Attributes:
        phi: The best vector so far, (dim,).
        cost: Its cost; infinite as long as nothing was queried.
        used: Queries so far.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> best = Incumbent(Oracle(QuadraticTask(dim=2)), queries=2, start=torch.zeros(2))
        >>> best.observe(torch.ones(1, 2)).shape, best.left
        (torch.Size([1]), 0)
    """

    def __init__(self, oracle: Oracle, *, queries: int, start: Tensor | None = None) -> None:
        """Query `start`, unless the budget is 0.

        Args:
            oracle: Who is asked.
            queries: How many queries may be spent.
            start: First vector; 0 if None.
        """
        self.phi = torch.zeros(oracle.dim) if start is None else start.detach().clone()
        self.cost = math.inf
        self.used = 0
        self._oracle = oracle
        self._queries = queries
        self._history: list[tuple[int, Tensor]] = [(0, self.phi)]
        if queries > 0:
            self.observe(self.phi[None])

    @property
    def left(self) -> int:
        """Queries left; none once the metric has failed too often."""
        return 0 if self._oracle.ledger.stopped else self._queries - self.used

    def observe(self, phi: Tensor) -> Tensor:
        """Costs of as many of the vectors (population, dim) as there are queries for; failures count as worst."""
        phi = phi[: self.left].detach().to(torch.float32)
        costs = [self._observed(some) for some in phi.split(_AT_ONCE)] if len(phi) else []
        return torch.cat(costs) if costs else torch.zeros(0, dtype=torch.float64)

    def spend(self, queries: int) -> None:
        """Count queries that were asked about something else than a vector, such as mini-batches."""
        self.used += queries

    def outcome(self) -> Outcome:
        """The best vector of all, and those before it."""
        return Outcome(self.phi, tuple(self._history))

    def _observed(self, phi: Tensor) -> Tensor:
        costs = self._oracle.observe(phi)
        for vector, cost in zip(phi, costs.tolist(), strict=True):
            self.used += 1
            if cost < self.cost:  # never true of NaN
                self.phi, self.cost = vector.clone(), cost
                self._history.append((self.used, self.phi))
        return costs.double().nan_to_num(nan=WORST)
