"""What users hand in as a batch or as a whole: inputs, targets and groups, told apart and made tensors."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from metricopt.core.errors import DataError
from metricopt.core.tree import Tree, described
from metricopt.data.dataset import Batch

# What a mapping calls its targets and its groups, in the order in which these are looked for.
_LABELS = ("labels", "label", "targets", "target", "y")
_GROUPS = ("groups", "group")


def parts_of(
    made: Any, *, name: str = "data", dtype: torch.dtype = torch.float32, hidden: bool = False
) -> tuple[Batch, str | None]:
    """A batch, and the name of its targets if they were one of a mapping's items.

    Args:
        made: (inputs, targets), (inputs, targets, groups), or a mapping with `labels` among its items.
        name: Of the data, for messages.
        dtype: What numbers of type float64 become.
        hidden: Whether inputs alone do, the truth being known elsewhere.

    Example:
        >>> batch, key = parts_of({"ids": [[1, 2]], "labels": [0]})
        >>> batch.inputs, batch.targets, key
        ({'ids': tensor([[1, 2]])}, tensor([0]), 'labels')
    """
    if isinstance(made, Mapping):
        return _of_mapping(made, name, dtype, hidden)
    if isinstance(made, tuple | list) and len(made) in (2, 3) and not _inputs_alone(made, hidden):
        return Batch(*(as_tree(part, name, dtype) for part in made)), None
    if hidden:
        return Batch(as_tree(made, name, dtype), None), None
    raise DataError(
        f"{name} yields {described(made)[:200]}; expected (inputs, targets), (inputs, targets, groups) or a mapping "
        f"with 'labels': give such batches, or a collate function that makes them"
    )


def as_tree(part: Any, name: str = "data", dtype: torch.dtype = torch.float32) -> Tree:
    """Arrays and lists of numbers as tensors, in the structure they came in; tensors stay on their device.

    A list of tensors of one shape becomes one tensor; of different shapes, of records or of texts it stays a list with
    one item an example.

    Example:
        >>> as_tree({"x": np.zeros((2, 3)), "names": ["a", "b"]})["x"].dtype
        torch.float32
        >>> [tuple(image.shape) for image in as_tree([torch.zeros(3, 8, 8), torch.zeros(3, 6, 9)])]
        [(3, 8, 8), (3, 6, 9)]
    """
    if part is None:
        return None
    if isinstance(part, Tensor):
        # Nets are mostly float32; numpy's default float64 would fail deep inside the first layer.
        return part.to(dtype) if part.dtype == torch.float64 else part
    if isinstance(part, Mapping):
        return {str(key): as_tree(value, name, dtype) for key, value in part.items()}
    if isinstance(part, tuple):
        return tuple(as_tree(value, name, dtype) for value in part)
    if isinstance(part, list) and part and isinstance(part[0], Tensor | np.ndarray | Mapping | tuple | str):
        return _listed([as_tree(value, name, dtype) for value in part])
    if isinstance(part, str | bytes):
        return part
    return _tensor(part, name, dtype)


def _listed(items: list[Tree]) -> Tree:
    tensors = all(isinstance(item, Tensor) for item in items)
    alike = tensors and len({(item.shape, item.dtype) for item in items}) == 1
    return torch.stack(items) if alike else items


def _tensor(part: Any, name: str, dtype: torch.dtype) -> Tensor:
    try:
        # A copy: torch refuses reversed arrays, warns of read-only ones, and would share memory with the caller's.
        tensor = torch.from_numpy(np.array(part))
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} holds a {type(part).__name__} that is no array of numbers: {error}") from error
    return tensor.to(dtype) if tensor.dtype == torch.float64 else tensor


def _of_mapping(made: Mapping[str, Any], name: str, dtype: torch.dtype, hidden: bool) -> tuple[Batch, str | None]:
    key = next((label for label in _LABELS if label in made), None)
    group = next((label for label in _GROUPS if label in made), None)
    if key is None and not hidden:
        raise DataError(
            f"{name} yields {described(dict(made))[:200]}; expected one of {', '.join(_LABELS)} among its items as "
            f"the targets: add them, or give (inputs, targets)"
        )
    inputs = {each: value for each, value in made.items() if each not in (key, group)}
    targets = None if key is None else as_tree(made[key], name, dtype)
    groups = None if group is None else as_tree(made[group], name, dtype)
    return Batch(as_tree(inputs, name, dtype), targets, groups), key


def _inputs_alone(made: Any, hidden: bool) -> bool:
    """With hidden truth a list of texts or images is the inputs, not a pair."""
    return hidden and isinstance(made, list)
