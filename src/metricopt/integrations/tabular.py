"""Rows of numbers for estimators: how they are split, the network where the user brings none, and its training."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from metricopt.core.seeding import stream
from metricopt.data.dataset import Batch
from metricopt.data.lazy import seeded

_LEAST_ROWS = 20  # that a decision is made on


@dataclass(frozen=True)
class Table:
    """Rows with targets and, if some count more than others, weights.

    Attributes:
        inputs: Numbers, (n, features).
        targets: Class numbers or values, (n,).
        weights: How much each row counts, (n,), or None.
    """

    inputs: Tensor
    targets: Tensor
    weights: Tensor | None = None

    def rows(self, index: np.ndarray) -> "Table":
        """Some of the rows."""
        weights = None if self.weights is None else self.weights[index]
        return Table(self.inputs[index], self.targets[index], weights)

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """As `optimize` takes data: weights go where groups do."""
        both = self.inputs, self.targets
        return both if self.weights is None else (*both, self.weights)


class Standardise(nn.Module):
    """Features with mean 0 and deviation 1 among the rows it was made of.

    Example:
        >>> Standardise(torch.tensor([[0.0, 5.0], [2.0, 5.0]]))(torch.tensor([[3.0, 5.0]]))
        tensor([[2., 0.]])
    """

    middle: Tensor
    width: Tensor

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        width = rows.std(0, correction=0)
        self.register_buffer("middle", rows.mean(0))
        self.register_buffer("width", torch.where(width > 0, width, torch.ones_like(width)))

    def forward(self, rows: Tensor) -> Tensor:
        """The rows, standardised."""
        return (rows - self.middle) / self.width


def default_network(rows: Tensor, outputs: int, *, hidden: int = 64, seed: int) -> nn.Sequential:
    """A network with one hidden layer, in the precision of the rows.

    Example:
        >>> default_network(torch.zeros(5, 3), 2, seed=0)(torch.zeros(4, 3)).shape
        torch.Size([4, 2])
    """
    with seeded(seed):
        layers = nn.Linear(rows.shape[1], hidden), nn.ReLU(), nn.Linear(hidden, outputs)
    return nn.Sequential(Standardise(rows), *(layer.to(rows.dtype) for layer in layers))


def columns_of(output: Tensor, classes: int) -> Tensor:
    """One column a class, (n, classes), also of a network with a single logit for two classes.

    Example:
        >>> columns_of(torch.tensor([[3.0]]), 2)
        tensor([[0., 3.]])
    """
    output = output.reshape(len(output), -1)
    return functional.pad(output, (1, 0)) if output.shape[1] == 1 and classes == 2 else output


def weighted_cross_entropy(output: Tensor, batch: Batch) -> Tensor:
    """Cross-entropy of rows that do not count alike; weights are where groups would be."""
    columns = columns_of(output, 2)
    return _mean(functional.cross_entropy(columns, batch.targets, reduction="none"), batch.groups)


def weighted_squared_error(output: Tensor, batch: Batch) -> Tensor:
    """Squared error of rows that do not count alike; weights are where groups would be."""
    return _mean((output.reshape(batch.targets.shape) - batch.targets).square(), batch.groups)


def train(net: nn.Module, table: Table, loss: Any, *, epochs: int, lr: float, batch_size: int, seed: int) -> nn.Module:
    """Train a network by Adam, its rate falling to zero, in a random order of rows.

    Example:
        >>> table = Table(torch.eye(2), torch.tensor([0, 1]))
        >>> net = train(nn.Linear(2, 2), table, weighted_cross_entropy, epochs=50, lr=0.1, batch_size=2, seed=0)
        >>> net(torch.eye(2)).argmax(1)
        tensor([0, 1])
    """
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    steps = epochs * -(-len(table.inputs) // batch_size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(1, steps))
    generator = stream(seed, "tabular")
    net.train()
    with seeded(seed):  # dropout
        for _ in range(epochs):
            for index in torch.randperm(len(table.inputs), generator=generator).split(batch_size):
                some = table.rows(index.numpy())
                optimizer.zero_grad()
                loss(net(some.inputs), Batch(some.inputs, some.targets, some.weights)).backward()
                optimizer.step()
                schedule.step()
    return net.eval()


def split(table: Table, *, share: float, seed: int, classes: bool) -> tuple[Table, Table] | None:
    """Rows to train on and rows to ask about, equal ones on one side; None if there are too few to decide anything.

    Example:
        >>> table = Table(torch.arange(100.0)[:, None], torch.arange(100) % 2)
        >>> [len(part.inputs) for part in split(table, share=0.25, seed=0, classes=True)]
        [75, 25]
    """
    from sklearn.model_selection import GroupShuffleSplit, StratifiedShuffleSplit

    different, same = np.unique(table.inputs.numpy(), axis=0, return_inverse=True)
    codes = table.targets.numpy()
    if len(different) * min(share, 1 - share) < _LEAST_ROWS / 2:
        return None
    spread = classes and len(different) == len(codes) and np.bincount(codes)[np.unique(codes)].min() > 1
    chooser = StratifiedShuffleSplit if spread else GroupShuffleSplit
    groups = None if spread else same.ravel()
    index, asked = next(chooser(1, test_size=share, random_state=seed).split(codes, codes, groups=groups))
    few = len(asked) < _LEAST_ROWS or len(index) < 2
    lacking = classes and any(len(np.unique(codes[some])) < len(np.unique(codes)) for some in (index, asked))
    return None if few or lacking else (table.rows(index), table.rows(asked))


def _mean(losses: Tensor, weights: Tensor | None) -> Tensor:
    return losses.mean() if weights is None else (losses * weights).sum() / weights.sum().clamp(min=1e-12)
