"""Whole outputs beside whole truths, for metrics that are given all that a network says."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from metricopt.core.tree import Tree, each


@dataclass(frozen=True)
class WholeCases:
    """What each member of a population gave, beside what is true.

    Attributes:
        predictions: For each member all that the network gave, one row an example.
        targets: Truth, shared by all members.
        groups: Group numbers, (n,), if there are any.

    Example:
        >>> cases = WholeCases([[{"boxes": torch.zeros(1, 4)}]], [{"boxes": torch.zeros(2, 4)}])
        >>> [type(part[0]["boxes"]).__name__ for part in cases.arrays(0)]
        ['Tensor', 'Tensor']
    """

    predictions: list[Tree]
    targets: Tree
    groups: Tensor | None = None

    @property
    def sound(self) -> Tensor:
        """Every member counts as sound: what is broken about whole outputs only the metric can tell."""
        return torch.ones(len(self.predictions), dtype=torch.bool)

    def arrays(self, member: int) -> list[Any]:
        """(truth, prediction), and groups if there are any: copies, so that nobody's numbers are written to.

        Tensors side by side become NumPy arrays; what is a list with one item an example keeps its tensors, in the
        layout of torchmetrics.
        """
        parts = [self.targets, self.predictions[member]]
        parts += [] if self.groups is None else [self.groups]
        return [_handed(part) for part in parts]


def _handed(tree: Tree) -> Any:
    if isinstance(tree, list):
        return each(lambda tensor: tensor.detach().clone(), tree)
    if isinstance(tree, Tensor):
        array = tree.detach().cpu()
        return (array.float() if array.dtype == torch.bfloat16 else array).numpy().copy()
    if isinstance(tree, dict):
        return {name: _handed(part) for name, part in tree.items()}
    if isinstance(tree, tuple):
        return tuple(_handed(part) for part in tree)
    return np.asarray(tree) if isinstance(tree, int | float) else tree
