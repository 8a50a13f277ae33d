"""Metrics that look at groups of examples apart from their classes."""

import torch
from torch import Tensor

from metricopt.core.errors import MetricError
from metricopt.metrics.counts import class_counts
from metricopt.metrics.metric import Metric
from metricopt.metrics.named import METRICS, population_metric


@METRICS.add("worst_group_accuracy")
def worst_group_accuracy() -> Metric:
    """Smallest accuracy among the groups that have examples.

    Example:
        >>> logits, targets, groups = torch.tensor([1.0, 1.0, 1.0]), torch.tensor([1, 1, 0]), torch.tensor([7, 3, 3])
        >>> worst_group_accuracy().value(logits, targets, groups)
        0.5
    """
    return population_metric(_worst_group_accuracy, name="worst_group_accuracy", on="labels", goal="max", groups=True)


def _worst_group_accuracy(targets: Tensor, labels: Tensor, groups: Tensor) -> Tensor:
    if targets.shape != labels.shape or groups.shape != labels.shape:
        raise MetricError(
            f"targets {tuple(targets.shape)}, labels {tuple(labels.shape)} and groups {tuple(groups.shape)} differ in "
            f"shape: give one class and one group number for each example"
        )
    number = groups.unique(return_inverse=True)[1]
    # A right answer lands in its own group, a wrong one in a class behind all groups: recall is then accuracy.
    counts = class_counts(number, torch.where(targets == labels, number, number.max() + 1))
    return counts.recall.masked_fill(~counts.present, torch.inf).amin(1)
