"""Eq. S1: an MLP gives each coordinate its direction and its step from what is known of it and of the whole."""

from dataclasses import dataclass
from itertools import pairwise
from typing import final

import torch
from torch import Tensor

from metricopt.paper.learned.inputs import (
    EQUATION_S1,
    LOSS_ONLY,
    WITH_TIME,
    WITH_VALUE,
    Inputs,
    SeesInputs,
    root_mean_square_one,
)
from metricopt.paper.learned.rules import RULES
from metricopt.paper.learned.signals import Signals, State

__all__ = ["EQUATION_S1", "LARGEST_LOG_STEP", "LOSS_ONLY", "WITH_TIME", "WITH_VALUE", "MlpRule", "mlp"]

LARGEST_LOG_STEP = 4.0
"""Of the logarithm of a step, either way."""


@RULES.add("mlp")
@final
@dataclass(frozen=True)
class MlpRule(SeesInputs):
    """phi + alpha u with [alpha, u] = MLP(inputs of the coordinate).

    Inputs are scaled by the whole of phi: what one problem teaches is of use in another.

    Attributes:
        features: Names of the inputs.
        decays: Of the running averages of the gradient, one input each.
        hidden: Widths of the hidden layers.
        lr: Size of a step of direction 1.
        normalised: Whether u is divided by its root mean square over the coordinates and alpha is one number, the same
            for all of them, as in Celo2: no step is then longer than alpha says.

    Example:
        >>> rule = MlpRule()
        >>> weights = rule.initial(torch.Generator().manual_seed(0))
        >>> phi = torch.zeros(2, 3)
        >>> seen = Signals(phi, torch.tensor([[1.0, -1.0, 1.0]]).expand(2, 3), torch.ones(2), torch.ones(2), phi)
        >>> step, state = rule.update(weights.expand(2, -1), seen, rule.start(phi))
        >>> step[0].sign().tolist()
        [-1.0, 1.0, -1.0]
    """

    features: tuple[str, ...] = EQUATION_S1
    decays: tuple[float, ...] = (0.9,)
    hidden: tuple[int, ...] = (32,)
    lr: float = 0.03
    normalised: bool = False

    def __post_init__(self) -> None:
        if not self.hidden:
            raise ValueError("there is no hidden layer; expected one: training starts from a step that it carries on")
        _ = self._inputs  # which checks features and decays

    @property
    def _inputs(self) -> Inputs:
        return Inputs(self.features, self.decays)

    @property
    def widths(self) -> tuple[int, ...]:
        """Of all layers, inputs and the two outputs included."""
        return (sum(self._inputs.count(name) for name in self.features), *self.hidden, 2)

    def initial(self, generator: torch.Generator) -> Tensor:
        """Weights of a step of length lr along the first average; what else the layers compute is not listened to.

        Where it sees the gradient of a value function, along the sum of both: MetricOpt's own step.
        """
        layers = []
        for a, b in pairwise(self.widths):
            layer = torch.randn(a + 1, b, generator=generator) / (a + 1) ** 0.5
            layer[:, :2] = 0.0
            layers.append(layer)
        # The first two units of a layer carry the positive and the negative part on.
        for name in ("average", "metric_gradient"):
            if name in self.features:
                layers[0][self._inputs.first(name), :2] = torch.tensor([1.0, -1.0])
        for layer in layers[1:-1]:
            layer[0, 0] = layer[1, 1] = 1.0
        layers[-1][0, 0], layers[-1][1, 0] = -1.0, 1.0
        return torch.cat([layer.flatten() for layer in layers])

    def start(self, phi: Tensor) -> State:
        """No averages yet; NaN for a loss and a metric that nobody has seen."""
        return self._inputs.start(phi)

    def update(self, weights: Tensor, seen: Signals, state: State) -> tuple[Tensor, State]:
        """alpha u / lr of Eq. S1, (members, dim), and the averages after the step."""
        columns, state = self._inputs.columns(seen, state)
        h = torch.stack([column.expand_as(seen.phi) for column in columns], -1)  # (members, dim, inputs)
        direction, log_step = mlp(weights, self.widths, h).unbind(-1)
        if self.normalised:
            direction, log_step = root_mean_square_one(direction), log_step.mean(-1, keepdim=True)
        return log_step.clamp(-LARGEST_LOG_STEP, LARGEST_LOG_STEP).exp() * direction, state


def mlp(weights: Tensor, widths: tuple[int, ...], inputs: Tensor) -> Tensor:
    """What an MLP with ReLU gives, (members, rows, last width), each member with weights (members, size) of its own.

    Example:
        >>> mlp(torch.tensor([[2.0, 1.0]]), (1, 1), torch.tensor([[[3.0]]]))  # one layer: a matrix, then its bias
        tensor([[[7.]]])
    """
    h, begin, last = inputs, 0, len(widths) - 2
    for layer, (a, b) in enumerate(pairwise(widths)):
        both = weights[:, begin : begin + (a + 1) * b].view(-1, a + 1, b)
        h = torch.baddbmm(both[:, a:], h, both[:, :a])
        h = h.relu() if layer < last else h
        begin += (a + 1) * b
    return h
