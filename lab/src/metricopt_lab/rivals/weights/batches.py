"""Mini-batches of finetuning: validation rows with training rows mixed in, plain or with classes equally often."""

from dataclasses import dataclass

import torch
from torch import Tensor

from metricopt.core.seeding import stream
from metricopt.data.dataset import Examples


@dataclass(frozen=True, eq=False)
class Batches:
    """The mini-batches of one member of a population, epoch by epoch.

    Attributes:
        data: Validation rows, then training rows.
        rows: Validation rows that it learns from.
        first_train: Number of the first training row in `data`.
        steps: Mini-batches an epoch; members of a population have the same number.
        batch: Rows a mini-batch.
        mix: Training rows for each validation row.
        balanced: Whether classes are drawn equally often.
        seed: Of the order.
        member: Distinguishes the orders of members.

    Example:
        >>> data = Examples(torch.arange(6.0)[:, None], torch.tensor([0, 0, 0, 1, 0, 1]))
        >>> plan = Batches(data, torch.arange(4), 4, steps=2, batch=2, mix=0.0, balanced=False, seed=0, member=0)
        >>> plan.epoch(0).flatten().sort().values.tolist()
        [0, 1, 2, 3]
    """

    data: Examples
    rows: Tensor
    first_train: int
    steps: int
    batch: int
    mix: float
    balanced: bool
    seed: int
    member: int

    def epoch(self, number: int) -> Tensor:
        """Rows of every mini-batch of an epoch, (steps, batch)."""
        draw = stream(self.seed, "batches", self.member, number)
        wanted = self.steps * self.batch
        own = round(wanted / (1 + self.mix))
        train = torch.arange(self.first_train, len(self.data))
        parts = [self._drawn(self.rows, own, draw), self._drawn(train, wanted - own, draw)]
        rows = torch.cat(parts)
        return rows[torch.randperm(wanted, generator=draw)].view(self.steps, self.batch)

    def _drawn(self, rows: Tensor, count: int, draw: torch.Generator) -> Tensor:
        if count == 0:
            return rows[:0]
        if self.balanced:
            # Drawing, not weighing, so that any loss of a batch will do.
            return rows[torch.multinomial(self._chances(rows), count, replacement=True, generator=draw)]
        rounds = -(-count // len(rows))
        orders = [torch.randperm(len(rows), generator=draw) for _ in range(rounds)]
        return rows[torch.cat(orders)[:count]]

    def _chances(self, rows: Tensor) -> Tensor:
        _, kinds, counts = torch.unique(self.data.targets[rows], return_inverse=True, return_counts=True)
        return 1.0 / counts[kinds].double()


def joined(first: Examples, second: Examples) -> Examples:
    """The rows of one set followed by those of another, without groups.

    Example:
        >>> one = Examples(torch.zeros(2, 1), torch.zeros(2, dtype=torch.long))
        >>> len(joined(one, one))
        4
    """
    return Examples(torch.cat([first.inputs, second.inputs]), torch.cat([first.targets, second.targets]))


def steps_an_epoch(rows: int, *, batch: int) -> int:
    """Mini-batches that show as many rows, and at least one.

    Example:
        >>> steps_an_epoch(900, batch=256), steps_an_epoch(10, batch=256)
        (4, 1)
    """
    return max(1, round(rows / batch))
