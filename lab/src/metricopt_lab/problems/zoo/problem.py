"""A problem as a user has it: a pre-trained network, a loss, a metric, and data in three parts."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from metricopt.data.dataset import Examples
from metricopt.losses import Loss
from metricopt.metrics import Metric

Half = Literal["development", "final"]
Kind = Literal["threshold", "ranking", "mismatch", "classes", "null"]

_ROWS_AT_ONCE = 4096


# Field by field it would compare tensors, whose truth is ambiguous.
@dataclass(frozen=True, eq=False)
class UserProblem:
    """What a user hands in, and test rows that nothing but the final judgement sees.

    Attributes:
        name: What it is called in tables.
        net: The pre-trained network in eval mode, never changed.
        loss: `loss(outputs, targets)` of pre-training and finetuning.
        metric: What to improve.
        train: What the network was trained on, with the labels it was trained with.
        val: What the metric is asked about; all decisions are made on it.
        test: What results are reported on.
        labels_visible: Whether the labels of `val` may be used for more than the metric.
        seed: Of split, noise and training.

    Example:
        >>> from metricopt.losses import cross_entropy
        >>> from metricopt.metrics import mcr
        >>> data, net = Examples(torch.tensor([[1.0], [-1.0]]), torch.tensor([1, 1])), nn.Flatten(0)
        >>> problem = UserProblem("toy", net, cross_entropy, mcr(), data, data, data, labels_visible=True, seed=0)
        >>> problem.test_cost(net), problem.test_cost(net, torch.tensor(2.0))
        (0.5, 0.0)
    """

    name: str
    net: nn.Module
    loss: Loss
    metric: Metric
    train: Examples
    val: Examples
    test: Examples
    labels_visible: bool
    seed: int

    def test_cost(self, net: nn.Module, bias: Tensor | None = None) -> float:
        """Cost of a network on the test rows, with a bias (outputs,) added to its outputs."""
        outputs = outputs_of_rows(net, self.test.inputs)
        return self.cost_of_test_outputs(outputs if bias is None else outputs + bias)

    def cost_of_test_outputs(self, outputs: Tensor) -> float:
        """Cost of outputs for the test rows, (n,) or (n, outputs)."""
        return float(self.metric.cost(self.metric.value(outputs, self.test.targets, self.test.groups)))


def outputs_of_rows(net: nn.Module, inputs: Tensor) -> Tensor:
    """Outputs of a network in eval mode, (n,) or (n, outputs), some rows at a time."""
    net.eval()
    with torch.inference_mode():
        return torch.cat([net(some) for some in inputs.split(_ROWS_AT_ONCE)]).clone()
