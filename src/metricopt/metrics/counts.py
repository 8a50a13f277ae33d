"""The part of a population's confusion matrices that metrics on labels need."""

from dataclasses import dataclass

import torch
from torch import Tensor

from metricopt.core.errors import MetricError


@dataclass(frozen=True)
class ClassCounts:
    """Diagonal and margins of each member's confusion matrix, float64, (population, classes).

    The matrices themselves would take classes times the memory, and no metric here looks at single confusions.

    Attributes:
        hits: Examples of the class that were predicted to be of it.
        actual: Examples of the class.
        predicted: Examples that were predicted to be of it.
    """

    hits: Tensor
    actual: Tensor
    predicted: Tensor

    @property
    def present(self) -> Tensor:
        """Whether the targets have examples of the class, (population, classes)."""
        return self.actual > 0

    @property
    def recall(self) -> Tensor:
        """Recall of each class, 0 where it has no examples, (population, classes)."""
        return ratio(self.hits, self.actual)


def class_counts(targets: Tensor, labels: Tensor) -> ClassCounts:
    """Counts of each class from targets and predicted labels, both (population, n).

    Example:
        >>> counts = class_counts(torch.tensor([[0, 1, 1]]), torch.tensor([[0, 0, 1]]))
        >>> counts.hits.tolist(), counts.actual.tolist(), counts.predicted.tolist()
        ([[1.0, 1.0]], [[1.0, 2.0]], [[2.0, 1.0]])
    """
    if targets.ndim != 2 or targets.shape != labels.shape or targets.is_floating_point() or int(targets.min()) < 0:
        lowest = targets.min().item() if targets.numel() else None
        raise MetricError(
            f"targets {tuple(targets.shape)} of {targets.dtype} with smallest value {lowest} do not name one class of "
            f"each example in labels {tuple(labels.shape)}: give targets as (n,) class numbers 0, 1, ..."
        )
    classes = int(torch.maximum(targets.max(), labels.max())) + 1
    nothing = torch.zeros(len(targets), classes, dtype=torch.float64, device=targets.device)
    one = nothing.new_ones(()).expand(targets.shape)
    return ClassCounts(
        hits=nothing.scatter_add(1, targets, (targets == labels).double()),
        actual=nothing.scatter_add(1, targets, one),
        predicted=nothing.scatter_add(1, labels, one),
    )


def ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Quotient, 0 where the denominator is 0.

    Example:
        >>> ratio(torch.tensor([1.0, 0.0]), torch.tensor([4.0, 0.0])).tolist()
        [0.25, 0.0]
    """
    empty = denominator == 0
    return torch.where(empty, 0.0, numerator / denominator.masked_fill(empty, 1.0))
