"""What users hand in as data, turned once into checked tensors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from metricopt.core.errors import DataError

Sampling = Literal["plain", "balanced"]
Kind = tuple["Examples", Sampling, int]
"""Data, how its rows are drawn, and of every how many of them."""


@dataclass(frozen=True)
class Examples:
    """Inputs with their targets and, where a metric needs them, group codes; one row an example.

    Example:
        >>> Examples(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1])).rows(torch.tensor([1, 3])).targets
        tensor([1, 1])
    """

    inputs: Tensor
    targets: Tensor
    groups: Tensor | None = None

    def __post_init__(self) -> None:
        if self.inputs.dim() == 0:
            raise DataError(f"inputs are the single number {self.inputs.item()}; expected one row an example")
        for name, tensor in (("targets", self.targets), ("groups", self.groups)):
            if tensor is not None and (tensor.dim() == 0 or len(tensor) != len(self.inputs)):
                raise DataError(
                    f"{name} have shape {tuple(tensor.shape)} for {len(self.inputs)} inputs; expected one row an input"
                )
        if len(self.inputs) == 0:
            raise DataError("there are no examples; expected at least one row")

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def has_classes(self) -> bool:
        """Whether targets are one class number an example."""
        return not self.targets.is_floating_point() and self.targets.dim() == 1

    def rows(self, index: Tensor) -> "Examples":
        """The same for some of the rows, in the order of `index`."""
        return Examples(self.inputs[index], self.targets[index], None if self.groups is None else self.groups[index])

    def with_truth_on_host(self) -> "Examples":
        """The same with targets and groups in the processor's memory, where metrics are computed; inputs stay."""
        groups = None if self.groups is None else self.groups.cpu()
        if self.targets.device.type == "cpu" and groups is self.groups:
            return self
        return Examples(self.inputs, self.targets.cpu(), groups)

    def to(self, device: torch.device) -> "Examples":
        """The same on another device."""
        groups = None if self.groups is None else self.groups.to(device)
        return Examples(self.inputs.to(device), self.targets.to(device), groups)


def as_examples(data: Any, *, name: str = "data", dtype: torch.dtype = torch.float32) -> Examples:
    """Examples from (inputs, targets[, groups]), a Dataset or a DataLoader of such pairs.

    Inputs stay on the device they are on; numbers of type float64 become `dtype`, that of the network.

    Example:
        >>> len(as_examples((np.zeros((3, 2), np.float32), [0, 1, 1])))
        3
    """
    if isinstance(data, Examples):
        return data
    if isinstance(data, DataLoader):
        return _stacked(list(data), name, torch.cat, dtype)
    if isinstance(data, Dataset):
        return _stacked([data[i] for i in range(len(data))], name, torch.stack, dtype)  # pyright: ignore[reportArgumentType]
    if isinstance(data, tuple | list) and len(data) in (2, 3):
        return _named([_tensor(part, name, dtype) for part in data], name)
    raise DataError(
        f"{name} is a {type(data).__name__}; expected (inputs, targets), (inputs, targets, groups), "
        f"a torch Dataset or a DataLoader"
    )


def as_hidden(data: Any, *, name: str = "data", first: int = 0, dtype: torch.dtype = torch.float32) -> Examples:
    """Examples whose truth is known elsewhere only: inputs alone, or with targets, which become row numbers.

    Example:
        >>> as_hidden(torch.zeros(3, 2), first=10).targets
        tensor([10, 11, 12])
    """
    if isinstance(data, Tensor | np.ndarray):
        inputs, groups = _tensor(data, name, dtype), None
    else:
        examples = as_examples(data, name=name, dtype=dtype)
        inputs, groups = examples.inputs, examples.groups
    return Examples(inputs, torch.arange(first, first + len(inputs)), groups)


def check_classes(train: Examples, other: Examples, *, name: str) -> None:
    """Raises DataError if a class of the training data is missing from other data, called `name` in the sentence.

    It would silently drop out of every per-class metric. Of more than 1000 classes some may well be missing.

    Example:
        >>> train = Examples(torch.zeros(2, 1), torch.tensor([0, 1]))
        >>> check_classes(train, train.rows(torch.tensor([0])), name="val")
        Traceback (most recent call last):
        ...
        metricopt.core.errors.DataError: class 1 of the training data is missing from val (1 rows); expected ...
    """
    if not train.has_classes:
        return
    known, present = set(torch.unique(train.targets).tolist()), set(torch.unique(other.targets).tolist())
    if len(known) <= 1000 and known - present:
        raise DataError(
            f"class {sorted(known - present)[0]} of the training data is missing from {name} ({len(other)} rows); "
            f"expected every class: split with stratification or use more rows"
        )


def _stacked(parts: Sequence[Any], name: str, join: Any, dtype: torch.dtype) -> Examples:
    if not parts or not isinstance(parts[0], tuple | list) or len(parts[0]) not in (2, 3):
        found = "nothing" if not parts else type(parts[0]).__name__
        raise DataError(f"{name} yields {found}; expected pairs (inputs, targets)")
    return _named([join([_tensor(part, name, dtype) for part in column]) for column in zip(*parts, strict=True)], name)


def _named(parts: list[Tensor], name: str) -> Examples:
    try:
        return Examples(*parts)
    except DataError as error:
        raise DataError(f"{name}: {error}") from None


def _tensor(part: Any, name: str, dtype: torch.dtype) -> Tensor:
    try:
        # A copy: torch refuses reversed arrays, warns of read-only ones, and would share memory with the caller's.
        tensor = part if isinstance(part, Tensor) else torch.from_numpy(np.array(part))
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} holds a {type(part).__name__} that is no array of numbers: {error}") from error
    # Nets are mostly float32; numpy's default float64 would fail deep inside the first layer.
    return tensor.to(dtype) if tensor.dtype == torch.float64 else tensor


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
    examples: Examples, population: int, *, batch_size: int, sampling: Sampling, generator: torch.Generator
) -> Iterator[Tensor]:
    """The row numbers of the same mini-batches, (population, batch).

    Example:
        >>> data = Examples(torch.zeros(4, 2), torch.tensor([0, 0, 0, 1]))
        >>> draw = torch.Generator().manual_seed(0)
        >>> next(index_stream(data, 3, batch_size=8, sampling="plain", generator=draw)).shape
        torch.Size([3, 8])
    """
    order, offsets, counts = _classes(examples.targets) if sampling == "balanced" else _one_class(len(examples))
    while True:
        size = (population, batch_size)
        which = torch.randint(len(counts), size, generator=generator)
        place = (torch.rand(size, generator=generator) * counts[which]).long()
        yield order[offsets[which] + place]


def mixed_stream(
    kinds: Sequence[Kind], population: int, *, batch_size: int, generator: torch.Generator
) -> Iterator[list[tuple[Examples, Tensor]]]:
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


def _classes(targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    if targets.numel() != len(targets):
        raise DataError(
            f"targets have shape {tuple(targets.shape)}, several an example; balanced sampling expects one class "
            f"each: use sampling='plain'"
        )
    classes = targets.flatten().cpu()
    order = torch.argsort(classes, stable=True)
    _, counts = torch.unique(classes, return_counts=True)
    return order, torch.cumsum(counts, 0) - counts, counts


def _one_class(rows: int) -> tuple[Tensor, Tensor, Tensor]:
    return torch.arange(rows), torch.zeros(1, dtype=torch.long), torch.tensor([rows])
