"""Inputs, targets and outputs of any structure: the only module that knows what a tree of tensors is.

A tree is a tensor, a mapping, a tuple (parts side by side) or a list (one item an example); what is none of these is a
leaf that nobody looks into. One tensor is the usual case and costs nothing extra.
"""

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from metricopt.core.errors import DataError

Tree = Any
Call = Callable[[nn.Module, Tree], Tree]


def call(net: nn.Module, inputs: Tree) -> Tree:
    """The network's output by the usual rule: `net(x)`, `net(*x)` of a tuple, `net(**x)` of a mapping.

    Example:
        >>> call(nn.Bilinear(2, 3, 4), (torch.ones(5, 2), torch.ones(5, 3))).shape
        torch.Size([5, 4])
    """
    if isinstance(inputs, Mapping):
        return net(**inputs)
    return net(*inputs) if isinstance(inputs, tuple) else net(inputs)


def each(change: Callable[[Tensor], Tensor], tree: Tree) -> Tree:
    """The same tree with every tensor changed.

    Example:
        >>> each(lambda tensor: tensor[:1], {"a": torch.ones(3, 2), "b": torch.ones(3)})
        {'a': tensor([[1., 1.]]), 'b': tensor([1.])}
    """
    if isinstance(tree, Tensor):
        return change(tree)
    if isinstance(tree, Mapping):
        return {name: each(change, part) for name, part in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(each(change, part) for part in tree))
    if isinstance(tree, tuple | list):
        return type(tree)(each(change, part) for part in tree)
    if _is_record(tree):
        fields = {name: each(change, part) for name, part in _fields(tree)}
        return dataclasses.replace(tree, **fields)
    return tree


def tensors_of(tree: Tree) -> tuple[Tensor, ...]:
    """All tensors of a tree.

    Example:
        >>> len(tensors_of((torch.ones(2), {"a": torch.ones(3), "b": "text"})))
        2
    """
    return tuple(leaf for _, leaf in paths(tree) if isinstance(leaf, Tensor))


def paths(tree: Tree, before: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Each leaf with the way that leads to it: names, places, or fields of a record.

    Example:
        >>> [path for path, _ in paths({"a": torch.ones(1), "b": (torch.ones(1), 2)})]
        [('a',), ('b', 0), ('b', 1)]
    """
    if isinstance(tree, Mapping):
        parts: Any = tree.items()
    elif isinstance(tree, tuple | list):
        parts = enumerate(tree)
    elif _is_record(tree):
        parts = _fields(tree)
    else:
        yield before, tree
        return
    for name, part in parts:
        yield from paths(part, (*before, name))


def at(tree: Tree, path: Sequence[Any]) -> Any:
    """What a way leads to.

    Example:
        >>> at({"a": [1, 2]}, ("a", 1))
        2
    """
    for name in path:
        tree = getattr(tree, name) if _is_record(tree) else tree[name]
    return tree


def replaced(tree: Tree, path: Sequence[Any], value: Any) -> Tree:
    """A copy of a tree, of the same type, with something else at the end of a way.

    Example:
        >>> replaced({"a": (1, 2), "b": 3}, ("a", 1), 9)
        {'a': (1, 9), 'b': 3}
    """
    if not path:
        return value
    name, rest = path[0], path[1:]
    value = replaced(at(tree, (name,)), rest, value)
    if isinstance(tree, Mapping):
        changed: Any = copy.copy(tree)
        changed[name] = value
        return changed
    if _is_record(tree):
        return dataclasses.replace(tree, **{name: value})
    if hasattr(tree, "_fields"):
        return tree._replace(**{tree._fields[name]: value})
    return type(tree)(value if place == name else part for place, part in enumerate(tree))


def rows(tree: Tree, index: Any) -> Tree:
    """The rows that an index (a tensor of numbers, or a slice) chooses, of every tensor and of every list.

    Example:
        >>> rows((torch.arange(4), ["a", "b", "c", "d"]), torch.tensor([1, 3]))
        (tensor([1, 3]), ['b', 'd'])
    """
    if isinstance(tree, Tensor):
        return tree[index.to(tree.device)] if isinstance(index, Tensor) else tree[index]
    if isinstance(tree, list):
        return tree[index] if isinstance(index, slice) else _picked(tree, index.tolist())
    if isinstance(tree, Mapping):
        return {name: rows(part, index) for name, part in tree.items()}
    if isinstance(tree, tuple):
        return tuple(rows(part, index) for part in tree)
    return tree


def row_count(tree: Tree) -> int | None:
    """How many rows the tensors and lists of a tree have; None if there are none, or they do not agree.

    Example:
        >>> row_count({"a": torch.ones(4, 2), "b": [1, 2, 3, 4]}), row_count((torch.ones(2), torch.ones(3)))
        (4, None)
    """
    sizes = set(_sizes(tree))
    return sizes.pop() if len(sizes) == 1 else None


def joined(parts: Sequence[Tree]) -> Tree:
    """Trees of one structure below each other: tensors concatenated, lists chained.

    Tensors that differ in more than their number of rows, as batches padded to their own longest sequence do, become a
    list with one tensor an example.

    Example:
        >>> joined([{"a": torch.zeros(2, 1)}, {"a": torch.ones(1, 1)}])["a"].flatten().tolist()
        [0.0, 0.0, 1.0]
        >>> len(joined([torch.zeros(2, 3), torch.zeros(4, 5)]))
        6
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, Tensor):
        alike = len({part.shape[1:] for part in parts}) == 1
        return torch.cat(list(parts)) if alike else [row for part in parts for row in part]
    if isinstance(first, list):
        return [item for part in parts for item in part]
    if isinstance(first, Mapping):
        return {name: joined([part[name] for part in parts]) for name in first}
    if isinstance(first, tuple):
        return tuple(joined(column) for column in zip(*parts, strict=True))
    return first


def opened(tree: Tree) -> Tree:
    """The same in plain mappings, tuples and lists; records and model outputs as mappings without what is None.

    Example:
        >>> @dataclasses.dataclass
        ... class Output:
        ...     logits: object
        ...     loss: object = None
        >>> opened(Output(1.0))
        {'logits': 1.0}
    """
    if isinstance(tree, Mapping):
        return {name: opened(part) for name, part in tree.items() if part is not None}
    if _is_record(tree):
        return {name: opened(part) for name, part in _fields(tree) if part is not None}
    if isinstance(tree, tuple):
        return tuple(opened(part) for part in tree)
    return [opened(part) for part in tree] if isinstance(tree, list) else tree


def placed(tensor: Tensor, like: Tensor) -> Tensor:
    """A tensor on the device of another and, if its numbers are floating, of the other's type; differentiably.

    Example:
        >>> placed(torch.ones(2), torch.zeros(1).double()).dtype, placed(torch.tensor(1), torch.zeros(1)).dtype
        (torch.float64, torch.int64)
    """
    return tensor.to(like.device, like.dtype if tensor.is_floating_point() else tensor.dtype)


def described(tree: Tree) -> str:
    """The structure in a few words, for messages.

    Example:
        >>> described({"ids": torch.zeros(2, 7).long(), "names": ["a", "b"]})
        "{'ids': int64 (2, 7), 'names': a list of 2 (str)}"
    """
    if isinstance(tree, Tensor):
        return f"{str(tree.dtype).removeprefix('torch.')} {tuple(tree.shape)}"
    if isinstance(tree, Mapping):
        return "{" + ", ".join(f"{name!r}: {described(part)}" for name, part in tree.items()) + "}"
    if isinstance(tree, tuple):
        return "(" + ", ".join(described(part) for part in tree) + ")"
    if isinstance(tree, list):
        return f"a list of {len(tree)} ({described(tree[0])})" if tree else "an empty list"
    if _is_record(tree):
        fields = [(name, part) for name, part in _fields(tree) if part is not None]
        return f"{type(tree).__name__}(" + ", ".join(f"{name}={described(part)}" for name, part in fields) + ")"
    return type(tree).__name__


def same_structure(one: Tree, other: Tree) -> bool:
    """Whether two trees have the same names and places, types of numbers and numbers of dimensions.

    Example:
        >>> same_structure({"a": torch.ones(2, 3)}, {"a": torch.ones(5, 4)}), same_structure(torch.ones(2), "text")
        (True, False)
    """
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.dim() == other.dim() and one.is_floating_point() == other.is_floating_point()
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same_structure(one[name], other[name]) for name in one)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(same_structure(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, list) and isinstance(other, list):
        return not one or not other or same_structure(one[0], other[0])
    return type(one) is type(other)


def _sizes(tree: Tree) -> Iterator[int]:
    if isinstance(tree, Tensor):
        yield len(tree) if tree.dim() else -1
    elif isinstance(tree, list):
        yield len(tree)
    elif isinstance(tree, Mapping | tuple):
        for part in tree.values() if isinstance(tree, Mapping) else tree:
            yield from _sizes(part)


def _picked(items: list[Any], index: Any) -> list[Any]:
    """Items by number, nested as the index is: one list a member for an index (population, batch)."""
    if index and isinstance(index[0], list):
        return [_picked(items, some) for some in index]
    return [items[place] for place in index]


def _is_record(tree: Any) -> bool:
    return dataclasses.is_dataclass(tree) and not isinstance(tree, type | Mapping)


def _fields(tree: Any) -> Iterator[tuple[str, Any]]:
    return ((field.name, getattr(tree, field.name)) for field in dataclasses.fields(tree))


def check_rows(tree: Tree, count: int, *, what: str) -> None:
    """Raises DataError unless every tensor and list of a tree has `count` rows.

    Example:
        >>> check_rows(torch.ones(3), 4, what="targets")
        Traceback (most recent call last):
        ...
        metricopt.core.errors.DataError: targets are float32 (3,) for 4 inputs; expected one row an input
    """
    if any(size != count for size in _sizes(tree)):
        raise DataError(f"{what} are {described(tree)} for {count} inputs; expected one row an input")
