"""Which tensor of a network's output is what labels, scores and views are made of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from metricopt.core.errors import DataError
from metricopt.core.tree import Tree, at, described, paths, replaced

Read = Callable[[Tree], Tensor] | str | int | tuple[Any, ...] | None

# Where networks of the usual libraries put what they say, in the order in which these are looked for.
_NAMES = ("logits", "out", "output", "outputs", "pred", "prediction", "predictions", "scores")


@dataclass(frozen=True)
class Reader:
    """Takes the tensor out of an output, and puts another one in its place.

    Attributes:
        path: The way to it; empty if the output is the tensor itself; None if only `take` knows.
        take: A function of the user's own.

    Example:
        >>> import torch
        >>> reader = reader_of({"logits": torch.zeros(2, 3), "hidden": torch.zeros(2, 8)})
        >>> reader.path, reader({"logits": torch.ones(1), "hidden": None})
        (('logits',), tensor([1.]))
    """

    path: tuple[Any, ...] | None = ()
    take: Callable[[Tree], Tensor] | None = None

    def __call__(self, output: Tree) -> Tensor:
        """The tensor of an output."""
        if self.take is not None:
            return self.take(output)
        return output if not self.path else at(output, self.path)

    def put(self, output: Tree, tensor: Tensor) -> Tree:
        """The output with another tensor in its place."""
        if self.path is None:
            raise DataError("read is a function that computes its tensor, which has no place in the output to put it")
        return tensor if not self.path else replaced(output, self.path, tensor)


def reader_of(output: Tree, read: Read = None) -> Reader | None:
    """How the tensor is taken from outputs like this one; None where there is none to be found.

    Args:
        output: What the network gives for a few rows.
        read: A function, a name, a place or a way of several of them; None to recognise a tensor, `.logits`, `["out"]`
            and the like, the first of a tuple.

    Example:
        >>> import torch
        >>> reader_of((torch.zeros(2), torch.zeros(3))).path
        (0,)
        >>> reader_of([{"boxes": torch.zeros(5, 4)}]) is None
        True
    """
    if callable(read):
        return _own(output, read)
    if read is not None:
        path = read if isinstance(read, tuple) else (read,)
        if not isinstance(_found(output, path), Tensor):
            raise DataError(
                f"read={read!r} finds no tensor in the network's output {described(output)}; expected the name or "
                f"place of one: choose another, or pass a function"
            )
        return Reader(path)
    path = _recognised(output)
    return None if path is None else Reader(path)


def _own(output: Tree, read: Callable[[Tree], Tensor]) -> Reader:
    try:
        tensor = read(output)
    except (KeyError, IndexError, AttributeError, TypeError) as error:
        raise DataError(
            f"read raised {type(error).__name__} ({error}) on the network's output {described(output)}; expected a "
            f"tensor: read another part"
        ) from error
    if not isinstance(tensor, Tensor):
        raise DataError(
            f"read gave a {type(tensor).__name__} from the network's output {described(output)}; expected a tensor"
        )
    place = next((path for path, leaf in paths(output) if leaf is tensor), None)
    return Reader(place, None if place is not None else read)


def _recognised(output: Tree) -> tuple[Any, ...] | None:
    if isinstance(output, Tensor):
        return ()
    if isinstance(output, Mapping) or hasattr(output, "__dataclass_fields__"):
        for name in _NAMES:
            if isinstance(_found(output, (name,)), Tensor):
                return (name,)
        tensors = [path for path, leaf in paths(output) if isinstance(leaf, Tensor) and leaf.dim() > 0]
        return tensors[0] if len(tensors) == 1 else None
    if isinstance(output, tuple) and output:
        inner = _recognised(output[0])
        return None if inner is None else (0, *inner)
    return None


def _found(output: Tree, path: tuple[Any, ...]) -> Any:
    try:
        return at(output, path)
    except (KeyError, IndexError, AttributeError, TypeError):
        return None
