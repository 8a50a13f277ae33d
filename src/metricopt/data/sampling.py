"""Which rows the next mini-batches take: as they come, or every class equally often."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from metricopt.core.errors import DataError
from metricopt.core.registry import one_of
from metricopt.core.tree import described
from metricopt.data.dataset import Data, Examples


@dataclass(frozen=True)
class PerClass:
    """Mini-batches of some classes with so many rows of each, as losses about pairs of a class need them.

    A class with fewer rows gives some of them twice.

    Attributes:
        rows: Rows of each class (m).

    Example:
        >>> data = Examples(torch.zeros(40, 2), torch.arange(40) % 8)
        >>> draw = torch.Generator().manual_seed(0)
        >>> index = next(index_stream(data, 1, batch_size=12, sampling=PerClass(4), generator=draw))
        >>> torch.unique(data.targets[index], return_counts=True)[1].tolist(), len(torch.unique(index))
        ([4, 4, 4], 12)
    """

    rows: int = 4

    def __post_init__(self) -> None:
        if self.rows < 2:
            raise DataError(f"PerClass has rows={self.rows}; expected at least 2, so that there are pairs of a class")


Named = Literal["plain", "balanced"]
Sampling = Named | PerClass
Kind = tuple[Data, Sampling, int]
"""Data, how its rows are drawn, and of every how many of them."""


def checked_sampling(sampling: Sampling, batch_size: int) -> Sampling:
    """The sampling, if there is such a one and a batch has room for two classes.

    Example:
        >>> checked_sampling(PerClass(8), 8)
        Traceback (most recent call last):
        ...
        metricopt.core.errors.DataError: a batch of 8 rows has 1 class of PerClass(rows=8); expected two or more: ...
    """
    if not isinstance(sampling, PerClass):
        one_of(sampling, get_args(Named), what="sampling")
        return sampling
    if batch_size < 2 * sampling.rows:
        raise DataError(
            f"a batch of {batch_size} rows has {batch_size // sampling.rows} class of {sampling}; expected two or "
            f"more: raise batch_size to {2 * sampling.rows} or more"
        )
    return sampling


def batch_stream(
    examples: Examples, population: int, *, batch_size: int, sampling: Sampling, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless mini-batches, one a member: inputs (population, batch, ...) and targets (population, batch).

    `balanced` draws each class equally often.

    Example:
        >>> data = Examples(torch.zeros(4, 2), torch.tensor([0, 0, 0, 1]))
        >>> generator = torch.Generator().manual_seed(0)
        >>> inputs, targets = next(batch_stream(data, 3, batch_size=8, sampling="balanced", generator=generator))
        >>> inputs.shape, targets.shape
        (torch.Size([3, 8, 2]), torch.Size([3, 8]))
    """
    for index in index_stream(examples, population, batch_size=batch_size, sampling=sampling, generator=generator):
        yield examples.inputs[index], examples.targets[index]


def index_stream(
    data: Data, population: int, *, batch_size: int, sampling: Sampling, generator: torch.Generator
) -> Iterator[Tensor]:
    """The row numbers of the same mini-batches, (population, batch).

    Example:
        >>> data = Examples(torch.zeros(4, 2), torch.tensor([0, 0, 0, 1]))
        >>> draw = torch.Generator().manual_seed(0)
        >>> next(index_stream(data, 3, batch_size=8, sampling="plain", generator=draw)).shape
        torch.Size([3, 8])
    """
    if isinstance(sampling, PerClass):
        yield from _several_a_class(data, population, batch_size // sampling.rows, sampling.rows, generator)
    order, offsets, counts = _classes(data) if sampling == "balanced" else _one_class(len(data))
    while True:
        size = (population, batch_size)
        which = torch.randint(len(counts), size, generator=generator)
        place = (torch.rand(size, generator=generator) * counts[which]).long()
        yield order[offsets[which] + place]


def _several_a_class(
    data: Data, population: int, classes: int, rows: int, generator: torch.Generator
) -> Iterator[Tensor]:
    """Rows (population, classes * rows) of classes at random, without repeating either as far as there are enough."""
    order, offsets, counts = _classes(data)
    most = int(counts.max())
    inside = torch.arange(most) < counts.unsqueeze(1)
    while True:
        which = torch.rand(population, len(counts), generator=generator).argsort(1)
        which = which[:, torch.arange(classes) % len(counts)]  # (population, classes)
        # Rows of a class in random order, those that it does not have behind them.
        keys = torch.rand(population, classes, most, generator=generator).masked_fill(~inside[which], 2.0)
        place = keys.argsort(2)[..., torch.arange(rows) % most] % counts[which].unsqueeze(2)
        yield order[offsets[which].unsqueeze(2) + place].flatten(1)


def mixed_stream(
    kinds: Sequence[Kind], population: int, *, batch_size: int, generator: torch.Generator
) -> Iterator[list[tuple[Data, Tensor]]]:
    """For each kind its data and row numbers (population, batch) of endless mini-batches.

    Example:
        >>> data = Examples(torch.zeros(4, 2), torch.tensor([0, 0, 0, 1]))
        >>> draw = torch.Generator().manual_seed(0)
        >>> [(_, index)] = next(mixed_stream([(data, "plain", 2)], 3, batch_size=8, generator=draw))
        >>> index.shape, torch.unique(index).tolist()
        (torch.Size([3, 8]), [0, 2])
    """
    streams = [
        index_stream(
            data if every == 1 else data.rows(torch.arange(0, len(data), every)),
            population,
            batch_size=batch_size,
            sampling=sampling,
            generator=generator,
        )
        for data, sampling, every in kinds
    ]
    for indices in zip(*streams, strict=True):
        yield [(data, every * index) for (data, _, every), index in zip(kinds, indices, strict=True)]


def _classes(data: Data) -> tuple[Tensor, Tensor, Tensor]:
    classes = _codes(data).flatten().cpu()
    order = torch.argsort(classes, stable=True)
    _, counts = torch.unique(classes, return_counts=True)
    return order, torch.cumsum(counts, 0) - counts, counts


def _codes(data: Data) -> Tensor:
    """One number an example that tells its class; a column of them counts as such."""
    codes = data.classes
    if codes is None and isinstance(data, Examples):
        codes = data.targets
    if not isinstance(codes, Tensor) or codes.numel() != len(data):
        found = "unknown before they are read" if codes is None else described(codes)
        raise DataError(
            f"targets are {found}; balanced sampling expects one class an example: use sampling='plain', or give the "
            f"data set an attribute `targets`"
        )
    return codes


def _one_class(rows: int) -> tuple[Tensor, Tensor, Tensor]:
    return torch.arange(rows), torch.zeros(1, dtype=torch.long), torch.tensor([rows])
