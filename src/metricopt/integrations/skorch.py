"""Nets of skorch as plain modules that give logits."""

import copy
import sys
from typing import Any

from torch import Tensor, nn

_LEAST = 1e-12


def is_skorch(candidate: Any) -> bool:
    """Whether it is a net of skorch.

    Example:
        >>> is_skorch(nn.Linear(2, 1))
        False
    """
    # Whoever holds such an object has imported its library; importing it here would cost everybody else seconds.
    module = sys.modules.get("skorch")
    return module is not None and isinstance(candidate, module.NeuralNet)


def module_of(net: Any) -> nn.Module:
    """A copy of a fitted net's module; one whose criterion is NLLLoss gives probabilities, so their logarithms.

    Example:
        >>> import torch
        >>> from skorch import NeuralNetClassifier
        >>> net = NeuralNetClassifier(nn.Sequential(nn.Linear(2, 2), nn.Softmax(dim=-1))).initialize()
        >>> torch.allclose(module_of(net)(torch.ones(1, 2)).exp(), net.module_(torch.ones(1, 2)))
        True
    """
    module = copy.deepcopy(net.module_).eval()
    return Logarithms(module) if isinstance(net.criterion_, nn.NLLLoss) else module


class Logarithms(nn.Module):
    """A network of probabilities as one of logits.

    Example:
        >>> import torch
        >>> Logarithms(nn.Identity())(torch.tensor([1.0, 0.5]))
        tensor([ 0.0000, -0.6931])
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, inputs: Tensor) -> Tensor:
        """Logarithms of the network's probabilities."""
        return self.net(inputs).clamp(min=_LEAST).log()
