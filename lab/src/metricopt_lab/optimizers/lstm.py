"""The learned optimizer of Andrychowicz et al. (2016): an LSTM that all coordinates share and that sees the gradient.

From the paper and what its code does: two layers of 20 units, the gradient as logarithm and sign, a linear output.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import torch
from torch import Tensor

from metricopt.paper.learned.rules import RULES
from metricopt.paper.learned.signals import Signals, State

_RANGE = 5.0  # gradients below exp(-5) are told apart by their size, those above by their logarithm


@RULES.add("lstm")
@final
@dataclass(frozen=True)
class LstmRule:
    """An LSTM a coordinate, all with the same weights.

    Attributes:
        hidden: Units of each layer.
        lr: What the output is multiplied with.

    Example:
        >>> rule = LstmRule()
        >>> phi = torch.zeros(2, 3)
        >>> seen = Signals(phi, torch.ones(2, 3), torch.ones(2), torch.ones(2), phi)
        >>> weights = rule.initial(torch.Generator().manual_seed(0)).expand(2, -1)
        >>> step, state = rule.update(weights, seen, rule.start(phi))
        >>> step.shape, state["hidden0"].shape
        (torch.Size([2, 3]), torch.Size([2, 3, 20]))
    """

    hidden: tuple[int, ...] = (20, 20)
    lr: float = 0.1
    needs_loss = False
    needs_value = False

    @property
    def _shapes(self) -> list[tuple[int, int]]:
        """Of the matrices, each with a row for the bias: gates of every layer, then the output."""
        layers = [(before + now + 1, 4 * now) for before, now in pairwise((2, *self.hidden))]
        return [*layers, (self.hidden[-1] + 1, 1)]

    @property
    def size(self) -> int:
        """Number of weights."""
        return sum(a * b for a, b in self._shapes)

    def initial(self, generator: torch.Generator) -> Tensor:
        """Small random weights, with gates that remember and an output of nearly nothing."""
        *gates, output = [torch.randn(shape, generator=generator) / math.sqrt(shape[0]) for shape in self._shapes]
        for matrix, width in zip(gates, self.hidden, strict=True):
            matrix[-1, width : 2 * width] = 1.0
        return torch.cat([*(matrix.flatten() for matrix in gates), 0.1 * output.flatten()])

    def start(self, phi: Tensor) -> State:
        """Empty memories."""
        found = {}
        for layer, width in enumerate(self.hidden):
            for name in ("hidden", "cell"):
                found[f"{name}{layer}"] = torch.zeros(*phi.shape, width, dtype=phi.dtype, device=phi.device)
        return found

    def update(self, weights: Tensor, seen: Signals, state: State) -> tuple[Tensor, State]:
        """The output of the LSTM, (members, dim), and its memories."""
        after, h = {}, log_and_sign(seen.gradient)
        *gates, output = self._matrices(weights)
        for layer, (matrix, width) in enumerate(zip(gates, self.hidden, strict=True)):
            before = state[f"hidden{layer}"], state[f"cell{layer}"]
            together = torch.baddbmm(matrix[:, -1:], torch.cat([h, before[0]], -1), matrix[:, :-1])
            enter, forget, leave = together[..., : 3 * width].sigmoid().split(width, -1)
            cell = forget * before[1] + enter * together[..., 3 * width :].tanh()
            h = leave * cell.tanh()
            after[f"hidden{layer}"], after[f"cell{layer}"] = h, cell
        return torch.baddbmm(output[:, -1:], h, output[:, :-1]).squeeze(-1), after

    def _matrices(self, weights: Tensor) -> list[Tensor]:
        parts = weights.split([a * b for a, b in self._shapes], 1)
        return [part.view(-1, *shape) for part, shape in zip(parts, self._shapes, strict=True)]


def log_and_sign(gradient: Tensor) -> Tensor:
    """Two inputs a coordinate, (..., 2): log|g| / 5 and the sign, or -1 and g e^5 where the gradient is small.

    Example:
        >>> log_and_sign(torch.tensor([1.0, -math.exp(-5.0), 0.0])).tolist()
        [[0.0, 1.0], [-1.0, -1.0], [-1.0, 0.0]]
    """
    size = gradient.abs().clamp_min(math.exp(-_RANGE)).log() / _RANGE
    sign = (gradient * math.exp(_RANGE)).clamp(-1, 1)
    return torch.stack([size, sign], -1)
