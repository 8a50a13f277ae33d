"""A problem of the stick: a pre-trained network, a loss, a metric, and data in three parts."""

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
class Problem:
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
        shifted = outputs if bias is None else outputs + bias
        return float(self.metric.cost(self.metric.value(shifted, self.test.targets, self.test.groups)))


def outputs_of_rows(net: nn.Module, inputs: Tensor) -> Tensor:
    """Outputs of a network in eval mode, (n,) or (n, outputs), some rows at a time."""
    net.eval()
    with torch.inference_mode():
        return torch.cat([net(some) for some in inputs.split(_ROWS_AT_ONCE)]).clone()
