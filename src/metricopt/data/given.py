"""What users hand in as data, made a data set once: tensors, trees, a Dataset, a DataLoader."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from metricopt.core.errors import DataError
from metricopt.data.dataset import Data, Examples
from metricopt.data.lazy import Collate, LazyExamples
from metricopt.data.parts import parts_of


def as_data(
    given: Any, *, name: str = "data", dtype: torch.dtype = torch.float32, collate: Collate | None = None
) -> Data:
    """A data set from (inputs, targets[, groups]), a mapping with labels, a Dataset or a DataLoader.

    What is in memory stays there; a Dataset is read batch by batch, and so is that of a DataLoader, by its collate
    function and in its batch size. Inputs stay on the device they are on; float64 becomes `dtype`, that of the network.

    Example:
        >>> len(as_data((np.zeros((3, 2), np.float32), [0, 1, 1])))
        3
        >>> type(as_data(DataLoader([(torch.zeros(2), 1)] * 5, batch_size=2))).__name__
        'LazyExamples'
    """
    return _as_data(given, name=name, dtype=dtype, collate=collate, hidden=False, first=0)


def as_hidden(
    given: Any,
    *,
    name: str = "data",
    first: int = 0,
    dtype: torch.dtype = torch.float32,
    collate: Collate | None = None,
) -> Data:
    """A data set whose truth is known elsewhere only: inputs alone, or with targets, which become row numbers.

    Example:
        >>> as_hidden(torch.zeros(3, 2), first=10).truth[0]
        tensor([10, 11, 12])
    """
    return _as_data(given, name=name, dtype=dtype, collate=collate, hidden=True, first=first)


def as_examples(given: Any, *, name: str = "data", dtype: torch.dtype = torch.float32) -> Examples:
    """The same as `as_data` for what is to be in memory as a whole.

    Example:
        >>> as_examples(TensorDataset(torch.zeros(3, 2), torch.tensor([0, 1, 1]))).targets
        tensor([0, 1, 1])
    """
    data = as_data(given, name=name, dtype=dtype)
    if isinstance(data, LazyExamples):
        return Examples(*data.batch(torch.arange(len(data)), seed=0), data.label_key)
    assert isinstance(data, Examples)
    return data


def _as_data(given: Any, *, name: str, dtype: torch.dtype, collate: Collate | None, hidden: bool, first: int) -> Data:
    if isinstance(given, Data):
        return _hidden(given, first) if hidden else given
    if isinstance(given, TensorDataset) and collate is None:
        given = given.tensors
    loader = isinstance(given, DataLoader)
    source = given.dataset if loader else given
    if isinstance(source, IterableDataset):
        raise DataError(
            f"{name} is an IterableDataset ({type(source).__name__}), whose rows have no numbers; expected a map-style "
            f"Dataset with a length: give one, or the rows themselves"
        )
    if loader and isinstance(source, TensorDataset) and collate is None and _usual(given):
        return _as_data(source, name=name, dtype=dtype, collate=None, hidden=hidden, first=first)
    if loader or _is_dataset(given):
        return LazyExamples(
            source,
            collate=given.collate_fn if loader and collate is None else collate,
            batch_size=given.batch_size if loader else None,
            dtype=dtype,
            name=name,
            hidden=hidden,
            first=first,
        )
    return _in_memory(given, name=name, dtype=dtype, hidden=hidden, first=first)


def _in_memory(given: Any, *, name: str, dtype: torch.dtype, hidden: bool, first: int) -> Examples:
    known = isinstance(given, tuple | list | Mapping) or (hidden and isinstance(given, Tensor | np.ndarray))
    if not known or (isinstance(given, tuple | list) and len(given) not in (2, 3) and not hidden):
        raise DataError(
            f"{name} is a {type(given).__name__}; expected (inputs, targets), (inputs, targets, groups), a mapping "
            f"with 'labels', a torch Dataset or a DataLoader"
        )
    batch, key = parts_of(given, name=name, dtype=dtype, hidden=hidden)
    try:
        examples = Examples(*batch, key)
    except DataError as error:
        raise DataError(f"{name}: {error}") from None
    return _hidden(examples, first) if hidden else examples


def _hidden(data: Data, first: int) -> Any:
    if isinstance(data, Examples):
        return Examples(data.inputs, torch.arange(first, first + len(data)), data.groups, data.label_key)
    return data


def _is_dataset(given: Any) -> bool:
    """Anything with a length and rows by number that is none of the containers data come in."""
    plain = isinstance(given, tuple | list | Mapping | Tensor | np.ndarray | str | bytes)
    return not plain and hasattr(given, "__getitem__")


def _usual(loader: DataLoader[Any]) -> bool:
    """Whether a loader makes batches by torch's own rule."""
    from torch.utils.data import default_collate

    return loader.collate_fn is default_collate
