"""Which rows a finetuned network sees: validation rows with training rows mixed in, plain or classes equally often."""

from dataclasses import dataclass

import torch
from torch import Tensor

from metricopt.core.seeding import stream
from metricopt.crossfit.settings import Kind
from metricopt.data.dataset import Data, Examples
from metricopt.data.sampling import PerClass, index_stream


def folds_of(data: Data, count: int, *, seed: int, by_class: bool = False) -> Tensor:
    """Fold of each row, (n,): random, every class spread evenly, or with `by_class` no class in two folds.

    Example:
        >>> from metricopt.data.dataset import Examples
        >>> fold_of = folds_of(Examples(torch.zeros(12, 1), torch.arange(12) % 3), 4, seed=0)
        >>> [sorted((torch.arange(12) % 3)[fold_of == fold].tolist()) for fold in range(4)]
        [[0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 1, 2]]
        >>> folds_of(Examples(torch.zeros(6, 1), torch.tensor([7, 7, 8, 8, 9, 9])), 3, seed=0, by_class=True).tolist()
        [1, 1, 2, 2, 0, 0]
    """
    if by_class:
        return _folds_of_classes(data, count, stream(seed, "folds"))
    order = torch.randperm(len(data), generator=stream(seed, "folds"))
    if data.classes is not None:
        order = order[torch.argsort(data.classes[order], stable=True)]
    fold_of = torch.empty(len(data), dtype=torch.long)
    fold_of[order] = torch.arange(len(data)) % count
    return fold_of


def _folds_of_classes(data: Data, count: int, draw: torch.Generator) -> Tensor:
    """Whole classes in turn, the largest first, so that folds have about as many rows."""
    assert data.classes is not None
    labels, where, sizes = torch.unique(data.classes, return_inverse=True, return_counts=True)
    order = torch.randperm(len(labels), generator=draw)
    order = order[sizes[order].argsort(descending=True, stable=True)]
    fold_of = torch.empty(len(labels), dtype=torch.long)
    fold_of[order] = torch.arange(len(labels)) % count
    return fold_of[where]


@dataclass(frozen=True, eq=False)
class Draws:
    """The mini-batches of one network, epoch by epoch: so many validation rows and so many training rows each.

    Attributes:
        val: Data it learns from.
        train: Data that are mixed in.
        rows: Rows of `val` it may see, (n,).
        kind: How they are drawn.
        batch: Rows a mini-batch.
        steps: Mini-batches an epoch.
        seed: Of the order.
        member: Tells networks of one seed apart.
        a_class: Rows of each class in a mini-batch, for losses about pairs of a class; any if None.
    """

    val: Data
    train: Data
    rows: Tensor
    kind: Kind
    batch: int
    steps: int
    seed: int
    member: str
    a_class: int | None = None

    def epoch(self, number: int) -> tuple[Tensor, Tensor]:
        """Rows of `val`, (steps, own), and of `train`, (steps, rest), of every mini-batch of an epoch."""
        draw = stream(self.seed, "finetuning", self.member, number)
        own = self._whole(self.batch / (1 + self.kind.mix))
        rest = self._whole(self.batch - own) if own < self.batch else 0
        every = torch.arange(len(self.train))
        return (
            self._drawn(self.val, self.rows, own, draw).view(self.steps, own),
            self._drawn(self.train, every, rest, draw).view(self.steps, rest),
        )

    def _whole(self, wanted: float) -> int:
        """About so many rows, of classes that are whole and two at least."""
        if self.a_class is None:
            return max(1, round(wanted))
        return self.a_class * max(2, round(wanted / self.a_class))

    def _drawn(self, data: Data, rows: Tensor, each: int, draw: torch.Generator) -> Tensor:
        wanted = self.steps * each
        if wanted == 0:
            return rows[:0]
        if self.a_class is not None:
            return several_a_class(data, rows, self.a_class, batches=self.steps, size=each, generator=draw).flatten()
        if self.kind.balanced:
            assert data.classes is not None
            # Drawing, not weighing, so that any loss of a batch will do.
            _, codes, counts = torch.unique(data.classes[rows], return_inverse=True, return_counts=True)
            chances = 1.0 / counts[codes].double()
            return rows[_weighed(chances, wanted, draw)]
        if wanted < len(rows):
            return rows[torch.randperm(len(rows), generator=draw)[:wanted]]
        rounds = -(-wanted // len(rows))
        orders = [torch.randperm(len(rows), generator=draw) for _ in range(rounds)]
        return rows[torch.cat(orders)[:wanted]]


def several_a_class(
    data: Data, rows: Tensor, a_class: int, *, batches: int, size: int, generator: torch.Generator
) -> Tensor:
    """Some of the rows for each of so many mini-batches, several of each class, (batches, size).

    Example:
        >>> from metricopt.data.dataset import Examples
        >>> data = Examples(torch.zeros(12, 1), torch.arange(12) % 3)
        >>> draw = torch.Generator().manual_seed(0)
        >>> index = several_a_class(data, torch.arange(12), 2, batches=5, size=4, generator=draw)
        >>> index.shape, {len(torch.unique(data.targets[one])) for one in index}
        (torch.Size([5, 4]), {2})
    """
    assert data.classes is not None
    some = Examples(torch.zeros(len(rows), 0), data.classes[rows])
    return rows[next(index_stream(some, batches, batch_size=size, sampling=PerClass(a_class), generator=generator))]


def _weighed(chances: Tensor, count: int, draw: torch.Generator) -> Tensor:
    """Numbers drawn with these chances, (count,): torch's own way stops at 2**24 of them."""
    edges = chances.cumsum(0)
    places = torch.rand(count, generator=draw, dtype=torch.float64) * edges[-1]
    return torch.searchsorted(edges, places, right=True).clamp(max=len(chances) - 1)


def draws_of(
    val: Data,
    train: Data,
    rows: Tensor,
    kind: Kind,
    *,
    shown: int,
    batch: int,
    seed: int,
    member: str,
    a_class: int | None = None,
) -> Draws:
    """Mini-batches that show about `shown` validation rows an epoch, with training rows beside them.

    Example:
        >>> from metricopt.data.dataset import Examples
        >>> data = Examples(torch.zeros(30, 1), torch.arange(30) % 2)
        >>> some = draws_of(data, data, torch.arange(20), Kind(True, 1.0), shown=20, batch=8, seed=0, member="one")
        >>> [tuple(part.shape) for part in some.epoch(0)]
        [(5, 4), (5, 4)]
    """
    wanted = max(2, round(shown * (1 + kind.mix)))
    batch = min(batch, wanted)
    return Draws(val, train, rows, kind, batch, max(1, round(wanted / batch)), seed, member, a_class)
