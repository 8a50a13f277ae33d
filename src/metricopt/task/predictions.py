"""What a population predicts for the rows of a data set: all that a metric or a bootstrap needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from metricopt.core.errors import MetricError
from metricopt.core.tree import Tree
from metricopt.metrics.metric import Metric


@dataclass(frozen=True)
class Predictions:
    """Predictions of a population of phi on the same rows, in order.

    Attributes:
        phi: Whose they are, (population, dim).
        read: The tensors read from the outputs, (population, n, ...); None if nothing needs them.
        whole: For each member all that the network gave, one row an example; None if nothing needs it.
        rows: Numbers of the data set's rows that they are about, in order, (n,); None for all of them.

    Example:
        >>> import torch
        >>> from metricopt.metrics import mcr
        >>> Predictions(torch.zeros(2, 1), torch.zeros(2, 5)).for_metric(mcr()).shape
        torch.Size([2, 5])
    """

    phi: Tensor
    read: Tensor | None = None
    whole: Sequence[Tree] | None = None
    rows: Tensor | None = None

    def member(self, member: int) -> "Predictions":
        """One member's, as a population of one.

        Example:
            >>> import torch
            >>> Predictions(torch.zeros(2, 1), torch.arange(6).view(2, 3)).member(1).read
            tensor([[3, 4, 5]])
        """
        one = slice(member, member + 1)
        # As copies: a worker would be sent all that a view is part of.
        read = None if self.read is None else self.read[one].clone()
        return Predictions(self.phi[one].clone(), read, None if self.whole is None else self.whole[one], self.rows)

    def for_metric(self, metric: Metric) -> Any:
        """What a metric is computed on: tensors, or whole outputs."""
        found = self.whole if metric.on == "outputs" else self.read
        if found is None:
            raise MetricError(
                f"metric {metric.name!r} is computed on {metric.on}, but no tensor can be read from the network's "
                f"output; expected one: say which by read=, or use on='outputs'"
            )
        return found
