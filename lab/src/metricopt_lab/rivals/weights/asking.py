"""The metric with a count of its calls, as every rival that moves the weights asks it."""

from typing import final

import torch
from torch import Tensor

from metricopt.data.dataset import Examples
from metricopt.metrics import Metric


@final
class Asked:
    """Costs of outputs on some rows, within a number of calls.

    Attributes:
        used: Calls so far.

    Example:
        >>> from metricopt.metrics import mcr
        >>> asked = Asked(mcr(), Examples(torch.zeros(2, 1), torch.tensor([0, 1])), calls=3)
        >>> asked.costs(torch.tensor([[1.0, 1.0], [-1.0, 1.0]])).tolist(), asked.left
        ([0.5, 0.0], 1)
    """

    def __init__(self, metric: Metric, data: Examples, *, calls: int) -> None:
        self.metric, self.data = metric, data
        self.used, self._calls = 0, calls

    @property
    def left(self) -> int:
        """Calls left."""
        return self._calls - self.used

    def costs(self, outputs: Tensor) -> Tensor:
        """Costs of a population's outputs (population, n, ...), of as many as there are calls left; float64."""
        outputs = outputs[: self.left]
        self.used += len(outputs)
        if len(outputs) == 0:
            return torch.zeros(0, dtype=torch.float64)
        return self.metric.cost(self.metric.values(outputs, self.data.targets, self.data.groups))
