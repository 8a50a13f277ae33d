"""Eq. S1 read another way: one MLP sees all coordinates at once, so that each may learn a direction of its own.

The paper does not say that its MLP is shared by the coordinates, as that of Metz et al. is: it gives "the update
direction u_t and learning rate alpha_t". A shared MLP cannot tell a coordinate of phi from another; this one can, and
is of use for the one network and adapter that it was trained with.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import final

import torch
from torch import Tensor

from metricopt.core.errors import FileFormatError
from metricopt.paper.learned.equation_s1_rule import LARGEST_LOG_STEP, mlp
from metricopt.paper.learned.inputs import OF_EACH, WITH_TIME, Inputs, SeesInputs
from metricopt.paper.learned.rules import RULES
from metricopt.paper.learned.signals import Signals, State

_DECAYS = (0.9,)
_LARGEST = 100_000  # coordinates of phi that a file may claim


@RULES.add("whole")
@final
@dataclass(frozen=True)
class WholeRule(SeesInputs):
    """phi + alpha u with [alpha, u] = MLP(all inputs of all coordinates), a number and a vector.

    The MLP's vector is added to a step along the average gradient, which is where training starts.

    Attributes:
        dim: Size of phi.
        features: Names of the inputs, as of `MlpRule`.
        hidden: Widths of the hidden layers.
        lr: Size of a step of direction 1.

    Example:
        >>> rule = WholeRule(dim=3)
        >>> weights = rule.initial(torch.Generator().manual_seed(0))
        >>> phi = torch.zeros(2, 3)
        >>> seen = Signals(phi, torch.tensor([[1.0, -1.0, 1.0]]).expand(2, 3), torch.ones(2), torch.ones(2), phi)
        >>> step, state = rule.update(weights.expand(2, -1), seen, rule.start(phi))
        >>> step[0].sign().tolist()
        [-1.0, 1.0, -1.0]
    """

    dim: int = 128
    features: tuple[str, ...] = WITH_TIME
    hidden: tuple[int, ...] = (32,)
    lr: float = 0.03

    def __post_init__(self) -> None:
        if not 0 < self.dim <= _LARGEST or not self.hidden:
            raise ValueError(
                f"dim is {self.dim} and hidden {self.hidden}; expected between 1 and {_LARGEST} coordinates and a "
                f"hidden layer"
            )
        _ = self._inputs  # which checks the features

    @property
    def _inputs(self) -> Inputs:
        return Inputs(self.features, _DECAYS)

    @property
    def widths(self) -> tuple[int, ...]:
        """Of all layers; the outputs are u and the logarithm of alpha."""
        counts = [(self.dim if name in OF_EACH else 1) * self._inputs.count(name) for name in self.features]
        return (sum(counts), *self.hidden, self.dim + 1)

    def initial(self, generator: torch.Generator) -> Tensor:
        """Random layers and an output of nothing: a step of length lr along the average."""
        layers = [torch.randn(a + 1, b, generator=generator) / (a + 1) ** 0.5 for a, b in pairwise(self.widths)]
        layers[-1].zero_()
        return torch.cat([layer.flatten() for layer in layers])

    def start(self, phi: Tensor) -> State:
        """No averages yet; NaN for a loss and a metric that nobody has seen."""
        if phi.shape[1] != self.dim:
            raise FileFormatError(
                f"the optimizer was trained for {self.dim} coordinates at once and is given {phi.shape[1]}; expected "
                f"parameters of that size: use the adapter that it was trained with, or train it anew"
            )
        return self._inputs.start(phi)

    def update(self, weights: Tensor, seen: Signals, state: State) -> tuple[Tensor, State]:
        """alpha u / lr of Eq. S1, (members, dim), and the averages after the step."""
        columns, state = self._inputs.columns(seen, state)
        output = mlp(weights, self.widths, torch.cat(columns, -1).unsqueeze(1)).squeeze(1)  # (members, dim + 1)
        direction, log_step = output[:, :-1], output[:, -1:]
        along = columns[self._inputs.first("average")]
        return log_step.clamp(-LARGEST_LOG_STEP, LARGEST_LOG_STEP).exp() * (direction - along), state
