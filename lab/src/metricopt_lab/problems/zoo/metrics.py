"""Metrics of the zoo that the library has no name for, with batched forms."""

import functools

import torch
from torch import Tensor

from metricopt.metrics import Metric
from metricopt.metrics.named import population_metric


def cohen_kappa(classes: int) -> Metric:
    """Agreement beyond chance of predicted and true classes; below 0 counts as 0.

    Example:
        >>> cohen_kappa(2).value(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1]))
        1.0
    """
    weights = 1.0 - torch.eye(classes, dtype=torch.float64)
    return population_metric(functools.partial(_kappa, weights=weights), name="cohen_kappa", on="labels", goal="max")


def quadratic_kappa(classes: int) -> Metric:
    """Agreement of grades beyond chance, a miss counting by its square; below 0 counts as 0.

    Example:
        >>> quadratic_kappa(3).value(torch.eye(3), torch.tensor([0, 1, 2]))
        1.0
    """
    grades = torch.arange(classes, dtype=torch.float64)
    weights = (grades[:, None] - grades).square()
    name = "quadratic_kappa"
    return population_metric(functools.partial(_kappa, weights=weights), name=name, on="labels", goal="max")


def within_one() -> Metric:
    """Share of predicted grades that are at most one off.

    Example:
        >>> within_one().value(torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]), torch.tensor([1, 0]))
        0.5
    """
    return population_metric(_within_one, name="within_one", on="labels", goal="max")


def recall_at_false_alarms(positive: int, *, rate: float = 0.05) -> Metric:
    """Recall of one class by its log odds, at the threshold that at most `rate` of all other rows pass.

    Example:
        >>> metric = recall_at_false_alarms(1, rate=0.4)
        >>> metric.value(torch.tensor([[0.0, 3.0], [0.0, 2.0], [0.0, 1.0], [0.0, 0.0]]), torch.tensor([1, 0, 1, 0]))
        0.5
    """
    batched = functools.partial(_recall_at_false_alarms, positive=positive, rate=rate)
    return population_metric(batched, name=f"recall_at_{rate:g}_false_alarms", on="logits", goal="max")


def _kappa(targets: Tensor, labels: Tensor, *, weights: Tensor) -> Tensor:
    classes = len(weights)
    pairs = torch.zeros(len(labels), classes * classes, dtype=torch.float64)
    pairs.scatter_add_(1, targets * classes + labels, torch.ones_like(labels, dtype=torch.float64))
    table = pairs.view(-1, classes, classes)
    chance = table.sum(2, keepdim=True) * table.sum(1, keepdim=True) / table.sum((1, 2), keepdim=True)
    missed, expected = (weights * table).sum((1, 2)), (weights * chance).sum((1, 2))
    return (1 - missed / expected.clamp(min=1e-12)).clamp(min=0.0)


def _within_one(targets: Tensor, labels: Tensor) -> Tensor:
    return ((targets - labels).abs() <= 1).double().mean(1)


def _recall_at_false_alarms(targets: Tensor, outputs: Tensor, *, positive: int, rate: float) -> Tensor:
    others = [column for column in range(outputs.shape[-1]) if column != positive]
    scores = outputs[..., positive] - outputs[..., others].logsumexp(-1)  # (population, n)
    found = []
    for truth, score in zip(targets == positive, scores, strict=True):
        ordered = score[~truth].sort(descending=True).values
        found.append((score[truth] > ordered[int(rate * len(ordered))]).double().mean())
    return torch.stack(found)
