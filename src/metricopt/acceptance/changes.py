"""Which examples a new model gets right or wrong that the original did not, class by class."""

from typing import Any

import torch
from torch import Tensor

from metricopt.metrics.predictions import labels_of

MOST = 1000
"""With more classes than this a count by class tells nobody anything."""


def label_changes(outputs: tuple[Tensor, Tensor], targets: Tensor) -> dict[str, Any]:
    """Counts by class as plain data, or nothing where examples have no class.

    Args:
        outputs: Raw outputs of the original and of the new model, (n, ...).
        targets: True classes, (n,).

    Returns:
        `classes`, and for each of them `examples`, `right_before`, `won` (wrong before, right now) and `lost`.

    Example:
        >>> before, after = torch.tensor([1.0, -1.0, -1.0]), torch.tensor([1.0, 1.0, 1.0])
        >>> label_changes((before, after), torch.tensor([1, 1, 0]))
        {'classes': [0, 1], 'examples': [1, 2], 'right_before': [1, 1], 'won': [0, 1], 'lost': [1, 0]}
    """
    if not _one_class_each(outputs[0], targets):
        return {}
    classes, row = torch.unique(targets.long(), return_inverse=True)
    if len(classes) > MOST:
        return {}
    before, after = (labels_of(each[None])[0] == targets for each in outputs)
    return counted(classes, row, before, after)


def counted(classes: Tensor, row: Tensor, before: Tensor, after: Tensor) -> dict[str, Any]:
    """How many of each class there are, were right before, were won and were lost.

    Args:
        classes: The classes, (k,).
        row: Which of them each is of, (n,).
        before: Whether it was right before, (n,).
        after: Whether it is now, (n,).

    Example:
        >>> right, wrong = torch.tensor([True]), torch.tensor([False])
        >>> counted(torch.tensor([7]), torch.tensor([0]), wrong, right)
        {'classes': [7], 'examples': [1], 'right_before': [0], 'won': [1], 'lost': [0]}
    """
    flags = {
        "examples": torch.ones_like(before),
        "right_before": before,
        "won": ~before & after,
        "lost": before & ~after,
    }
    counts = {name: torch.bincount(row[flag], minlength=len(classes)).tolist() for name, flag in flags.items()}
    return {"classes": classes.tolist(), **counts}


def _one_class_each(outputs: Tensor, targets: Tensor) -> bool:
    whole = not targets.is_floating_point() or bool((targets == targets.round()).all())
    return targets.dim() == 1 and whole and outputs.dim() <= 2 and len(outputs) == len(targets)
