"""What one does without metricopt: move the threshold, or a bias for each class, until the metric is best."""

from typing import NamedTuple

import torch
from torch import Tensor

from metricopt.core.seeding import stream
from metricopt.metrics import Metric

FIRST_OFFSET, LAST_OFFSET = 1.0, 0.03


class Tuned(NamedTuple):
    """What tuning found.

    Attributes:
        bias: To be added to the outputs, (outputs,).
        best: Best value after each call of the metric, in its natural units.
    """

    bias: Tensor
    best: list[float]


def tuned(metric: Metric, outputs: Tensor, targets: Tensor, *, calls: int, seed: int) -> Tuned:
    """The best bias that `calls` calls of the metric find; the first asks about no bias at all.

    Args:
        metric: What to improve.
        outputs: Raw outputs of the network, (n, outputs).
        targets: True classes, (n,).
        calls: How often the metric is asked.
        seed: Of the order of thresholds and of the directions in which biases move.

    Example:
        >>> from metricopt.metrics import as_metric
        >>> outputs, targets = torch.linspace(-1, 1, 200)[:, None], (torch.arange(200) > 150).long()
        >>> found = tuned(as_metric("f1"), outputs, targets, calls=50, seed=0)
        >>> len(found.best), bool(found.best[-1] > 0.95)
        (50, True)
    """
    search = _thresholds if outputs.shape[1] == 1 else _biases
    return search(_Asked(metric, outputs, targets, calls), seed)


class _Asked:
    """Asks about biases and remembers the best one."""

    def __init__(self, metric: Metric, outputs: Tensor, targets: Tensor, calls: int) -> None:
        self.metric, self.outputs, self.targets = metric, outputs, targets
        self.left = calls
        self.sign = 1.0 if metric.goal == "max" else -1.0
        self.bias = torch.zeros(outputs.shape[1])
        self.best: list[float] = []
        self.ask(self.bias)

    def ask(self, bias: Tensor) -> bool:
        """Whether this bias is the best so far."""
        self.left -= 1
        value = float(self.metric.value(self.outputs + bias, self.targets))
        better = not self.best or self.sign * value > self.sign * self.best[-1]
        if better:
            self.bias = bias
        self.best.append(value if better else self.best[-1])
        return better


def _thresholds(asked: _Asked, seed: int) -> Tuned:
    """Thresholds evenly spread over the scores, in any order."""
    shares = torch.linspace(0, 1, asked.left + 2)[1:-1]
    for share in shares[torch.randperm(len(shares), generator=stream(seed, "demo", "thresholds"))]:
        asked.ask(-asked.outputs.quantile(share)[None])
    return Tuned(asked.bias, asked.best)


def _biases(asked: _Asked, seed: int) -> Tuned:
    """Up and down along the classes, then along random directions; halving the offset when none gains, then anew."""
    draw, size = stream(seed, "demo", "biases"), len(asked.bias)
    directions, offset = torch.eye(size), FIRST_OFFSET
    while asked.left:
        gained = False
        for direction in torch.cat([directions, -directions]):
            gained |= bool(asked.left) and asked.ask(asked.bias + offset * direction)
        directions = torch.linalg.qr(torch.randn(size, size, generator=draw)).Q
        offset = offset if gained else offset / 2
        offset = FIRST_OFFSET if offset < LAST_OFFSET else offset
    return Tuned(asked.bias, asked.best)
