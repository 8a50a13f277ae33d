"""Tasks: what the method needs to know of a problem."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from metricopt.run.ledger import Query, QueryLedger, Sheet
from metricopt.task.views import RAW, View

Loss = Callable[[Tensor, Tensor], Tensor]


class Task(ABC):
    """A loss to follow and a metric to query, both functions of a population of phi.

    Attributes:
        dim: Size of phi.
        ledger: Counts what `observe` spends.
        stage: Name under which queries are written down.

    Example:
        >>> class Bowl(Task):
        ...     dim, ledger = 2, QueryLedger(budget=10)
        ...     def batches(self, population, generator):
        ...         while True:
        ...             yield 0.1 * torch.randn(population, self.dim, generator=generator)
        ...     def loss(self, phi, batch):
        ...         return (phi + batch).square().sum(-1)
        ...     def costs(self, phi):
        ...         return (phi - 0.5).square().sum(-1).clamp(max=1.0)
        >>> bowl = Bowl()
        >>> bowl.observe(torch.tensor([[0.5, 0.5], [0.0, 0.0]])).tolist(), bowl.ledger.remaining
        ([0.0, 0.5], 8)
    """

    dim: int
    ledger: QueryLedger
    stage: str = "query"

    @abstractmethod
    def batches(self, population: int, generator: torch.Generator) -> Iterator[Any]:
        """Endless mini-batches, each holding one batch a member."""

    @abstractmethod
    def loss(self, phi: Tensor, batch: Any) -> Tensor:
        """Each member's loss on its own mini-batch, (population,), differentiable in phi (population, dim)."""

    @abstractmethod
    def costs(self, phi: Tensor) -> Tensor:
        """Each member's metric as a cost in [0, 1], NaN where it failed; counts nothing: call `observe`."""

    def observe(self, phi: Tensor) -> Tensor:
        """Each member's metric as a cost in [0, 1], NaN where it failed, (population,); one query each.

        Answers that the ledger's journal holds are taken from there. A member that breaks a constraint costs more
        than the first point queried if that keeps it, and more than 1 if not: it is never the best one.
        """
        self.ledger.charge(len(phi), stage=self.stage)
        phi = phi.detach().cpu()  # where the ledger and its journal are
        return torch.cat([self._observed(part) for part in phi.split(self.members_at_once)])

    def _observed(self, phi: Tensor) -> Tensor:
        sheet = self.ledger.sheet(phi, stage=self.stage)
        if sheet.missing:
            self.ask(sheet)
        return self.penalised(sheet.enter())

    @property
    def members_at_once(self) -> int:
        """How many members the metric is asked about at the same time, for the sake of memory."""
        return 2**31

    def ask(self, sheet: Sheet) -> None:
        """Write the missing answers on the sheet; all members are computed, so that bits do not depend on who asks."""
        costs = self.costs(sheet.phi).tolist()
        for member in sheet.missing:
            sheet.write(member, Query(sheet.stage, costs[member]), sync=member == sheet.missing[-1])

    def penalised(self, queries: list[Query]) -> Tensor:
        """Costs of queries, (population,), with what they cost more for breaking constraints."""
        costs = torch.tensor([query.cost for query in queries], dtype=torch.float64)
        violations = torch.tensor([query.violation for query in queries], dtype=torch.float64)
        if not bool(violations.any()):
            return costs
        first = next((query for query in self.ledger.queries if query.cost == query.cost), None)
        least = first.cost if first is not None and first.violation == 0 else 1.0
        return torch.where(violations > 0, costs.clamp_min(least) + violations, costs)

    @property
    def asks_cheaply(self) -> bool:
        """Whether any process may ask the metric, and not only the one that keeps the ledger."""
        return True

    @property
    def forks(self) -> bool:
        """Whether processes forked from this one can compute losses too."""
        return True

    def prepare(self) -> None:
        """Compute what all processes that are forked from now on will need; nothing by default."""
        return

    def start_batches(self, generator: torch.Generator) -> tuple[int, Iterator[Any]]:
        """How many kinds of mini-batches loss finetuning may follow, and endless batches with one of each kind."""
        return 1, self.batches(1, generator)

    def sound_starts(self, paths: Tensor) -> Tensor:
        """Points on paths (points, kinds, dim) of loss finetuning that are worth a query, (at most kinds, dim).

        The ends, unless a task knows better.
        """
        return paths[-1]

    @property
    def plain_starts(self) -> int:
        """How many of the starts, the first ones, come from data the metric is not queried on; all by default."""
        return 2**31

    def directions(self, phi: Tensor) -> Tensor:
        """Loss gradients of groups of examples at one phi (dim,): (groups, dim); none unless a task knows groups."""
        return torch.zeros(0, self.dim, device=phi.device)

    def shown(self, phi: Tensor, *, rows: int) -> Tensor:  # noqa: ARG002
        """Outputs on at most `rows` rows of the metric's data, (population, n, columns), without asking it.

        All that a metric could know of phi; phi itself by default.
        """
        return phi[:, None, :]

    @property
    def views(self) -> tuple[View, ...]:
        """Ways in which the metric may look at what it is shown."""
        return (RAW,)

    def responses(self, outputs: Tensor) -> Tensor:
        """What `shown` gives, scaled so that distances mean how differently two members predict: (population, ...)."""
        return outputs.flatten(1)

    @property
    def shift_coordinates(self) -> Tensor:
        """Coordinates of phi that shift one output each; none unless the adapter has them."""
        return torch.zeros(0, dtype=torch.long)

    def noise_std(self) -> float:
        """Standard deviation of one observation due to the finite metric data; 0 when exact."""
        return 0.0

    def doubt(self, phi: Tensor, other: Tensor) -> float:  # noqa: ARG002
        """Standard error of the difference of two costs, each phi (dim,), due to the finite metric data; 0 if exact."""
        return 0.0
