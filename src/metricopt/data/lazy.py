"""Data that are read as they are needed: any map-style data set with its own way to make batches, never whole."""

import contextlib
import copy
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Subset, default_collate

from metricopt.core.errors import DataError
from metricopt.core.tree import Tree, described, each, joined, row_count, same_structure
from metricopt.data.dataset import BATCH, Batch, Data, hashed
from metricopt.data.parts import parts_of

Collate = Callable[[list[Any]], Any]


@final
class LazyExamples(Data):
    """A data set with a length and rows by number, read batch by batch through its own `collate_fn`.

    Rows are read in this process, as often as batches are drawn; augmentation stays random, and is the same for the
    same seed. Only targets are kept, once something asks for all of them.

    Args:
        dataset: Anything with a length and rows by number.
        index: Which of its rows, (n,); all if None.
        collate: Makes a batch of a list of rows; torch's own rule if None.
        batch_size: Rows read at once when all are gone through.
        dtype: What numbers of type float64 become.
        name: What it is called in messages.
        hidden: Whether the truth is known elsewhere only: targets are then row numbers, counted from `first`.
        first: Of these.

    Example:
        >>> squares = [(torch.tensor([float(i)]), i * i) for i in range(10)]
        >>> data = LazyExamples(squares)
        >>> data.batch(torch.tensor([3, 4])).targets, data.truth[0][:4]
        (tensor([ 9, 16]), tensor([0, 1, 4, 9]))
    """

    def __init__(
        self,
        dataset: Any,
        index: Tensor | None = None,
        *,
        collate: Collate | None = None,
        batch_size: int | None = None,
        dtype: torch.dtype = torch.float32,
        name: str = "data",
        hidden: bool = False,
        first: int = 0,
    ) -> None:
        self.dataset = dataset
        self.index = torch.arange(_length(dataset, name)) if index is None else index
        if not len(self.index):
            raise DataError(f"{name}: there are no examples; expected at least one row")
        self.collate = default_collate if collate is None else collate
        self.batch_size = batch_size or BATCH
        self._options: dict[str, Any] = {"dtype": dtype, "name": name, "hidden": hidden, "first": first}
        self._truth: tuple[Tree, Tensor | None] | None = None
        self.label_key = self._read(self.index[:1])[1]

    def __len__(self) -> int:
        return len(self.index)

    def batch(self, index: Tensor, *, seed: int | None = None) -> Batch:
        """Rows by number, read now."""
        with seeded(seed):
            found = self._read(self.index[index])[0]
        if self._options["hidden"]:
            return found._replace(targets=self._options["first"] + index)
        return found

    def inputs_at(self, which: slice) -> Tree:
        """Inputs of a stretch of rows; whatever is random about them is the same every time."""
        return self.batch(torch.arange(len(self))[which], seed=which.start or 0).inputs

    def rows(self, index: Tensor) -> "LazyExamples":
        """The same for some of the rows; nothing is read."""
        some = copy.copy(self)
        some.index = self.index[index]
        some._truth = (self.truth[0][index], None) if self._options["hidden"] else None
        return some

    @property
    def truth(self) -> tuple[Tree, Tensor | None]:
        """Targets and groups of all rows: read once, and kept."""
        if self._truth is None:
            self._truth = self._all_truth()
        return self._truth

    def _all_truth(self) -> tuple[Tree, Tensor | None]:
        if self._options["hidden"]:
            first = self._options["first"]
            return torch.arange(first, first + len(self)), None
        batches = [self.batch(torch.arange(len(self))[part], seed=0) for part in self.stretches(self.batch_size)]
        targets = [each(lambda tensor: tensor.cpu(), batch.targets) for batch in batches]
        for number, part in enumerate(targets):
            if not same_structure(part, targets[0]):
                raise DataError(
                    f"targets of {self._options['name']} are {described(targets[0])} in the first batch and "
                    f"{described(part)} in number {number}; expected one structure: let the data set give the same"
                )
        groups = None if batches[0].groups is None else torch.cat([batch.groups.cpu() for batch in batches])  # pyright: ignore[reportOptionalMemberAccess]
        return joined(targets), groups

    @property
    def classes(self) -> Tensor | None:
        """Class numbers that the data set tells without reading rows, or that have been read already."""
        known = _told(self.dataset, self.label_key)
        codes = None if known is None else known[self.index]
        if codes is None and self._truth is not None and isinstance(self._truth[0], Tensor):
            codes = self._truth[0]
        whole = codes is not None and codes.dim() == 1 and not codes.is_floating_point()
        return codes if whole else None

    def fingerprint(self) -> str:
        """A hash of the first and the last batch and of which rows these are: the others are not read for it."""
        count = min(len(self), 32)
        ends = [self.batch(torch.arange(len(self))[part], seed=0) for part in (slice(0, count), slice(-count, None))]
        return hashed([tuple(batch) for batch in ends], self.index)

    def source(self) -> tuple[int, np.ndarray]:
        """The data set underneath, by identity, and the numbers of its rows: what tells whether two sets overlap."""
        dataset, index = self.dataset, self.index.numpy()
        while isinstance(dataset, Subset):
            index = np.asarray(dataset.indices)[index]
            dataset = dataset.dataset
        return id(dataset), index

    def _read(self, index: Tensor) -> tuple[Batch, str | None]:
        name = self._options["name"]
        given = self._rows(index.tolist())
        try:
            made = self.collate(given)
        except Exception as error:
            culprit = self._culprit(given, index)
            raise DataError(
                f"the collate function of {name} raised {type(error).__name__} for {len(given)} rows{culprit}: {error}"
                f"; expected one batch: pass collate=, or make the rows alike"
            ) from error
        batch, key = parts_of(made, name=name, dtype=self._options["dtype"], hidden=self._options["hidden"])
        count = row_count(batch.inputs)
        if count is not None and count != len(given):
            raise DataError(
                f"the collate function of {name} made inputs {described(batch.inputs)} of {len(given)} rows; expected "
                f"one row an example: pass another collate="
            )
        return batch, key

    def _rows(self, index: Sequence[int]) -> list[Any]:
        several = getattr(self.dataset, "__getitems__", None)
        if several is not None:
            return list(several(list(index)))
        found = []
        for place in index:
            try:
                found.append(self.dataset[place])
            except Exception as error:
                raise DataError(
                    f"row {place} of {self._options['name']} cannot be read ({type(error).__name__}: {error}); "
                    f"expected {type(self.dataset).__name__} to give it"
                ) from error
        return found

    def _culprit(self, given: list[Any], index: Tensor) -> str:
        """The first row that cannot be collated beside the first one, for the message."""
        for place, row in zip(index.tolist()[1:], given[1:], strict=True):
            try:
                self.collate([given[0], row])
            except Exception:
                return f", at row {place}"
        return f", at row {int(index[0])}" if len(given) == 1 else ""


@contextlib.contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Everything that is random without a generator of its own starts from `seed`, and goes on as before afterwards.

    Example:
        >>> with seeded(1):
        ...     one = torch.rand(1)
        >>> with seeded(1):
        ...     print(bool(one == torch.rand(1)))
        True
    """
    if seed is None:
        yield
        return
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002 - the user's own code draws there
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    torch.random.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        torch.set_rng_state(states[2])


def _length(dataset: Any, name: str) -> int:
    try:
        return len(dataset)
    except TypeError as error:
        raise DataError(
            f"{name} is a {type(dataset).__name__} without a length; expected rows by number: wrap it in a map-style "
            f"Dataset, or pass the rows themselves"
        ) from error


def _told(dataset: Any, key: str | None) -> Tensor | None:
    """Targets that a data set tells as a whole, as those of torchvision and Hugging Face do."""
    if isinstance(dataset, Subset):
        told = _told(dataset.dataset, key)
        return None if told is None else told[torch.as_tensor(dataset.indices)]
    columns = getattr(dataset, "column_names", None)
    if isinstance(columns, list):
        names = [name for name in (key, "label", "labels") if name in columns]
        told = dataset[names[0]] if names else None
    else:
        told = getattr(dataset, "targets", None)
    try:
        codes = None if told is None else torch.as_tensor(np.asarray(told))
    except (TypeError, ValueError):
        return None
    return codes if codes is not None and codes.dim() == 1 and len(codes) == len(dataset) else None
