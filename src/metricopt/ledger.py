"""The query ledger: every metric evaluation is counted here, granted or refused here, and nowhere else."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from metricopt.errors import BudgetError


@dataclass(frozen=True)
class Query:
    """One metric evaluation: which stage asked, and the cost that came back (NaN when the metric failed).

    Example:
        >>> Query("search", 0.25)
        Query(stage='search', cost=0.25)
    """

    stage: str
    cost: float


@dataclass
class QueryLedger:
    """Counts metric evaluations against a grant.

    Attributes:
        budget: Number of queries granted; None for no limit.
        queries: Every query made, in order.
        listener: Called after each entry, for progress displays and logs.
        resamples: Evaluations of the metric on resampled rows of predictions already paid for (noise, acceptance).

    Example:
        >>> ledger = QueryLedger(budget=3)
        >>> ledger.charge(2, stage="collect")
        >>> ledger.enter(torch.tensor([0.5, 0.4]), stage="collect")
        >>> ledger.remaining
        1
        >>> ledger.charge(2, stage="search")
        Traceback (most recent call last):
        ...
        metricopt.errors.BudgetError: stage 'search' asks for 2 metric queries, but 1 of 3 is left; grant more queries
    """

    budget: int | None = None
    queries: list[Query] = field(default_factory=list)
    resamples: int = 0
    listener: Callable[["QueryLedger"], None] | None = None
    _charged: int = 0

    def charge(self, count: int, *, stage: str) -> None:
        """Take `count` queries from the grant before they are made, so that even a crash cannot hide them."""
        if self.budget is not None and self._charged + count > self.budget:
            left = self.budget - self._charged
            raise BudgetError(
                f"stage {stage!r} asks for {count} metric queries, but {left} of {self.budget} "
                f"{'is' if left == 1 else 'are'} left; grant more queries"
            )
        self._charged += count

    def enter(self, costs: Tensor, *, stage: str) -> None:
        """Write down what charged queries answered."""
        self.queries.extend(Query(stage, float(cost)) for cost in costs)
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
    def failures(self) -> int:
        """Queries that brought no usable answer."""
        return sum(query.cost != query.cost for query in self.queries)

    def best_so_far(self) -> Tensor:
        """Lowest cost after each query, (queries,)."""
        costs = torch.tensor([query.cost for query in self.queries], dtype=torch.float64)
        return torch.cummin(torch.nan_to_num(costs, nan=float("inf")), dim=0).values if len(costs) else costs
