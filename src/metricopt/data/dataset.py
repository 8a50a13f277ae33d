"""A data set: a length, rows by index as batches of any structure, and the truth of all rows in order."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from metricopt.core.errors import DataError
from metricopt.core.tree import Tree, check_rows, described, each, paths, row_count, rows

BATCH = 256
"""Rows that are read at once where nobody says how many."""


class Batch(NamedTuple):
    """Some rows: inputs, targets and group codes, each a tree with one row an example.

    Example:
        >>> Batch(torch.zeros(2, 3), torch.tensor([0, 1])).groups is None
        True
    """

    inputs: Tree
    targets: Tree
    groups: Tensor | None = None


class Data(ABC):
    """What the method needs to know of a data set; `Examples` holds it in memory, `LazyExamples` reads it as it goes.

    Attributes:
        label_key: Under which name the network takes targets beside its inputs, to give a loss of its own.
        batch_size: How many rows are read at once.
    """

    label_key: str | None = None
    batch_size: int = BATCH

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def batch(self, index: Tensor, *, seed: int | None = None) -> Batch:
        """Rows by number (k,), in that order; `seed` fixes what is random about reading them, such as augmentation."""

    @abstractmethod
    def inputs_at(self, which: slice) -> Tree:
        """Inputs of a stretch of rows."""

    @abstractmethod
    def rows(self, index: Tensor) -> "Data":
        """The same for some of the rows, in the order of `index`."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A short hash of the contents, to recognise them by."""

    @property
    @abstractmethod
    def truth(self) -> tuple[Tree, Tensor | None]:
        """Targets and groups of all rows, in order, in the processor's memory."""

    @property
    @abstractmethod
    def classes(self) -> Tensor | None:
        """One class number an example, (n,), where there is such a thing and it can be known without reading inputs."""

    @property
    def has_classes(self) -> bool:
        """Whether targets are one class number an example."""
        return self.classes is not None

    def stretches(self, size: int) -> Iterator[slice]:
        """All rows in stretches of so many.

        Example:
            >>> list(Examples(torch.zeros(5, 1), torch.zeros(5)).stretches(2))
            [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
        """
        return (slice(start, min(start + size, len(self))) for start in range(0, len(self), size))


@dataclass(frozen=True)
class Examples(Data):
    """Inputs with their targets and, where a metric needs them, group codes, in memory; one row an example.

    Each is a tensor or a tree of tensors and lists. One tensor each is the fast path.

    Example:
        >>> Examples(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1])).rows(torch.tensor([1, 3])).targets
        tensor([1, 1])
        >>> Examples({"a": torch.zeros(2, 3), "b": ["x", "y"]}, torch.zeros(2)).batch(torch.tensor([1])).inputs["b"]
        ['y']
    """

    inputs: Any
    targets: Any
    groups: Tensor | None = None
    label_key: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.inputs, Tensor) and self.inputs.dim() == 0:
            raise DataError(f"inputs are the single number {self.inputs.item()}; expected one row an example")
        count = row_count(self.inputs)
        if count is None:
            raise DataError(f"inputs are {described(self.inputs)}; expected the same number of rows in every part")
        if count == 0:
            raise DataError("there are no examples; expected at least one row")
        for name, part in (("targets", self.targets), ("groups", self.groups)):
            if part is not None:
                check_rows(part, count, what=name)

    def __len__(self) -> int:
        return row_count(self.inputs) or 0

    @property
    def simple(self) -> bool:
        """Whether inputs and targets are one tensor each: the fast path."""
        return isinstance(self.inputs, Tensor) and isinstance(self.targets, Tensor)

    @property
    def classes(self) -> Tensor | None:
        """The targets, if they are one class number an example."""
        targets = self.targets
        whole = isinstance(targets, Tensor) and not targets.is_floating_point() and targets.dim() == 1
        return targets if whole else None

    @property
    def truth(self) -> tuple[Tree, Tensor | None]:
        """Targets and groups."""
        return self.targets, self.groups

    def batch(self, index: Tensor, *, seed: int | None = None) -> Batch:  # noqa: ARG002
        """Rows by number."""
        groups = None if self.groups is None else rows(self.groups, index)
        return Batch(rows(self.inputs, index), rows(self.targets, index), groups)

    def inputs_at(self, which: slice) -> Tree:
        """Inputs of a stretch of rows."""
        return rows(self.inputs, which)

    def rows(self, index: Tensor) -> "Examples":
        """The same for some of the rows, in the order of `index`."""
        return Examples(*self.batch(index), self.label_key)

    def with_truth_on_host(self) -> "Examples":
        """The same with targets and groups in the processor's memory, where metrics are computed; inputs stay."""
        targets = each(lambda tensor: tensor.cpu(), self.targets)
        groups = None if self.groups is None else self.groups.cpu()
        if targets is self.targets and groups is self.groups:
            return self
        return Examples(self.inputs, targets, groups, self.label_key)

    def to(self, device: torch.device) -> "Examples":
        """The same on another device."""
        inputs, targets, groups = (
            each(lambda tensor: tensor.to(device), part) for part in (self.inputs, self.targets, self.groups)
        )
        return Examples(inputs, targets, groups, self.label_key)

    def fingerprint(self) -> str:
        """A short hash of all numbers."""
        return hashed(self.inputs, self.targets, self.groups)


def hashed(*trees: Tree) -> str:
    """16 hexadecimal digits over the shapes, types and bytes of all tensors, and the text of other leaves.

    Example:
        >>> hashed(torch.zeros(2)) == hashed(torch.zeros(2)), hashed(torch.zeros(2)) == hashed(torch.ones(2))
        (True, False)
    """
    digest = hashlib.sha256()
    for tree in trees:
        for _, leaf in paths(tree):
            if isinstance(leaf, Tensor):
                digest.update(f"{tuple(leaf.shape)} {leaf.dtype}".encode())
                digest.update(leaf.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
            elif leaf is not None:
                digest.update(repr(leaf)[:10_000].encode())
    return digest.hexdigest()[:16]
