"""Output biases fitted offline to soft forms of common metrics: guesses that cost one call of the metric each."""

from collections.abc import Callable

import torch
from torch import Tensor

SoftMetric = Callable[[Tensor], Tensor]
"""From soft confusion tables (k, true class, predicted class) that sum to 1 to values, higher is better, (k,)."""

TEMPERATURES = (0.5,)
MOST_NUMBERS, STEPS, LR = 200_000, 40, 0.15


def soft_biases(outputs: Tensor, targets: Tensor) -> Tensor:
    """Biases (count, classes) that are best by soft metrics, each at two temperatures, for outputs (n, classes)."""
    kinds = [(soft, temperature) for soft in SOFT_METRICS for temperature in TEMPERATURES]
    stride = max(1, outputs.numel() // MOST_NUMBERS)
    outputs, targets = outputs[::stride].detach(), targets[::stride]
    truth = torch.nn.functional.one_hot(targets, outputs.shape[1]).to(outputs.dtype)  # (n, classes)
    biases = torch.zeros(len(kinds), outputs.shape[1], requires_grad=True)
    temperatures = torch.tensor([temperature for _, temperature in kinds])[:, None, None]
    optimizer = torch.optim.Adam([biases], lr=LR)
    for _ in range(STEPS):
        shares = ((outputs + biases[:, None]) / temperatures).softmax(-1)  # (k, n, classes)
        tables = truth.T @ shares / len(outputs)  # (k, classes, classes)
        values = [soft(table[None])[0] for (soft, _), table in zip(kinds, tables, strict=True)]
        optimizer.zero_grad()
        (-torch.stack(values).sum()).backward()
        optimizer.step()
    return biases.detach() - biases.detach().mean(1, keepdim=True)


def accuracy(table: Tensor) -> Tensor:
    """Share on the diagonal."""
    return _hits(table).sum(-1)


def mean_recall(table: Tensor) -> Tensor:
    """Mean of the classes' recalls."""
    return _recalls(table).mean(-1)


def geometric_mean(table: Tensor) -> Tensor:
    """Mean of the logarithms of the classes' recalls."""
    return (_recalls(table) + 1e-3).log().mean(-1)


def worst_recall(table: Tensor) -> Tensor:
    """Soft minimum of the classes' recalls."""
    return -(-_recalls(table) / 0.05).logsumexp(-1) * 0.05


def macro_f1(table: Tensor) -> Tensor:
    """Mean of the classes' F1."""
    return (2 * _hits(table) / (table.sum(-1) + table.sum(-2) + 1e-6)).mean(-1)


def kappa(table: Tensor) -> Tensor:
    """Agreement beyond chance."""
    return _kappa(table, lambda gaps: (gaps != 0).to(table.dtype))


def graded_kappa(table: Tensor) -> Tensor:
    """Agreement beyond chance, a miss counting by its square."""
    return _kappa(table, lambda gaps: gaps.square())


def nearly_right(table: Tensor) -> Tensor:
    """Share at most one class off."""
    return (table * (_gaps(table).abs() <= 1)).sum((-1, -2))


SOFT_METRICS: tuple[SoftMetric, ...] = (
    accuracy, mean_recall, geometric_mean, worst_recall, macro_f1, kappa, graded_kappa, nearly_right,
)  # fmt: skip


def _hits(table: Tensor) -> Tensor:
    return table.diagonal(dim1=-2, dim2=-1)


def _recalls(table: Tensor) -> Tensor:
    """Recall of each class; 1 for a class without rows, which then is neither the worst nor worth a shift."""
    actual = table.sum(-1)
    return torch.where(actual > 0, _hits(table) / actual.clamp(min=1e-9), 1.0)


def _gaps(table: Tensor) -> Tensor:
    return torch.arange(table.shape[-2])[:, None] - torch.arange(table.shape[-1])


def _kappa(table: Tensor, weigh: Callable[[Tensor], Tensor]) -> Tensor:
    weights = weigh(_gaps(table).to(table.dtype))
    chance = table.sum(-1, keepdim=True) * table.sum(-2, keepdim=True)
    return 1 - (weights * table).sum((-1, -2)) / (weights * chance).sum((-1, -2))
