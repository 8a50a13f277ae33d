"""Eq. S1: an MLP gives each coordinate its direction and its step from what is known of it and of the whole."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import torch
from torch import Tensor

from metricopt.core.registry import one_of
from metricopt.paper.learned.rules import RULES
from metricopt.paper.learned.signals import Signals, State

EQUATION_S1 = ("gradient", "average", "phi", "loss", "loss_change", "metric", "metric_change")
"""The inputs that the paper names."""

LOSS_ONLY = ("gradient", "average", "phi", "time")
"""The informative inputs of Metz et al., whose optimizer never sees a metric."""

WITH_TIME = (*EQUATION_S1, "time")
"""Eq. S1 with the step's number: what it takes to slow down where mini-batches are noisy."""

WITH_VALUE = (*WITH_TIME, "metric_gradient")
"""The same with the gradient of a value function that is kept; not the paper's."""

TIMES = (3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4, 3e5)
"""Scales of steps at which the input "time" changes, as in the code of Metz et al."""

_SMALLEST = 1e-8  # of a gradient: its size differs between problems by many orders
_DECAY = 0.9  # of the averages of loss and metric
_MOST = 4.0  # of the logarithm of a step, either way


@RULES.add("mlp")
@final
@dataclass(frozen=True)
class MlpRule:
    """phi + alpha u with [alpha, u] = MLP(inputs of the coordinate).

    Gradients are divided by their root mean square over the coordinates, phi by sqrt(1 + its mean square): what one
    problem teaches is of use in another.

    Attributes:
        features: Names of the inputs.
        decays: Of the running averages of the gradient, one input each.
        hidden: Widths of the hidden layers.
        lr: Size of a step of direction 1.

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

    def __post_init__(self) -> None:
        for name in self.features:
            one_of(name, tuple(_INPUTS), what="feature")
        if "average" not in self.features or not self.decays or not self.hidden:
            raise ValueError(
                f"features are {self.features}, decays {self.decays} and hidden {self.hidden}; expected an 'average' "
                f"with a decay and a hidden layer: training starts from a step along it"
            )

    @property
    def widths(self) -> tuple[int, ...]:
        """Of all layers, inputs and the two outputs included."""
        return (sum(self._columns.get(name, 1) for name in self.features), *self.hidden, 2)

    @property
    def size(self) -> int:
        """Number of weights."""
        return sum((a + 1) * b for a, b in pairwise(self.widths))

    @property
    def needs_loss(self) -> bool:
        """Whether it looks at the loss."""
        return any(name.startswith("loss") for name in self.features)

    @property
    def needs_value(self) -> bool:
        """Whether it looks at the gradient of a value function."""
        return "metric_gradient" in self.features

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
                layers[0][self._first(name), :2] = torch.tensor([1.0, -1.0])
        for layer in layers[1:-1]:
            layer[0, 0] = layer[1, 1] = 1.0
        layers[-1][0, 0], layers[-1][1, 0] = -1.0, 1.0
        return torch.cat([layer.flatten() for layer in layers])

    def _first(self, feature: str) -> int:
        """Number of its first input."""
        before = self.features[: self.features.index(feature)]
        return sum(self._columns.get(name, 1) for name in before)

    @property
    def _columns(self) -> dict[str, int]:
        return {"average": len(self.decays), "time": len(TIMES)}

    def start(self, phi: Tensor) -> State:
        """No averages yet; NaN for a loss and a metric that nobody has seen."""
        unknown = torch.full_like(phi[:, 0], torch.nan)
        names = ("loss_first", "loss_average", "metric_first", "metric_average")
        averages = torch.zeros(len(phi), len(self.decays), phi.shape[1], dtype=phi.dtype, device=phi.device)
        steps = torch.zeros_like(unknown)
        return {"averages": averages, "steps": steps, **{name: unknown.clone() for name in names}}

    def update(self, weights: Tensor, seen: Signals, state: State) -> tuple[Tensor, State]:
        """alpha u / lr of Eq. S1, (members, dim), and the averages after the step."""
        state = self._remembered(seen, state)
        h = torch.stack(self._inputs(seen, state), -1)  # (members, dim, inputs)
        layers = self._layers(weights)
        for layer, (matrix, bias) in enumerate(layers):
            h = torch.baddbmm(bias, h, matrix)
            h = h.relu() if layer < len(layers) - 1 else h
        direction, log_step = h.unbind(-1)
        return log_step.clamp(-_MOST, _MOST).exp() * direction, state

    def _layers(self, weights: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Matrix (members, inputs, outputs) and bias (members, 1, outputs) of each layer."""
        found, begin = [], 0
        for a, b in pairwise(self.widths):
            layer = weights[:, begin : begin + (a + 1) * b].view(-1, a + 1, b)
            found.append((layer[:, :a], layer[:, a:]))
            begin += (a + 1) * b
        return found

    def _inputs(self, seen: Signals, state: State) -> list[Tensor]:
        columns = []
        for name in self.features:
            found = _INPUTS[name](self, seen, state)
            columns += [each.expand_as(seen.phi) for each in found]
        return columns

    def _remembered(self, seen: Signals, state: State) -> State:
        decays = torch.tensor(self.decays, dtype=seen.phi.dtype, device=seen.phi.device)[None, :, None]
        averages = decays * state["averages"] + (1 - decays) * seen.gradient[:, None]
        return {
            "averages": averages,
            "steps": state["steps"] + 1,
            **_moved("loss", seen.loss, state),
            **_moved("metric", seen.metric, state),
        }


def _moved(name: str, value: Tensor, state: State) -> State:
    """First value and running average, which begin with the first one that is known."""
    first, average = state[f"{name}_first"], state[f"{name}_average"]
    moved = torch.where(value.isnan(), average, _DECAY * average + (1 - _DECAY) * value)
    return {
        f"{name}_first": torch.where(first.isnan(), value, first),
        f"{name}_average": torch.where(average.isnan(), value, moved),
    }


def _unit(vector: Tensor) -> Tensor:
    """Divided by its root mean square over the last dimension."""
    return vector / (vector.square().mean(-1, keepdim=True) + _SMALLEST**2).sqrt()


def _relative(value: Tensor, reference: Tensor) -> Tensor:
    """Relative difference, (members, 1), between -1 and 1; 0 where either is unknown."""
    known = ~(value.isnan() | reference.isnan())
    # NaN is replaced before the division: its derivative would be NaN even where the result is not taken.
    value, reference = torch.where(known, value, 1.0), torch.where(known, reference, 1.0)
    return torch.tanh((value - reference) / (reference.abs() + _SMALLEST)).unsqueeze(-1)


_INPUTS: dict[str, Callable[[MlpRule, Signals, State], list[Tensor]]] = {
    "gradient": lambda _, seen, __: [_unit(seen.gradient)],
    "average": lambda _, __, state: list(_unit(state["averages"]).unbind(1)),
    "phi": lambda _, seen, __: [seen.phi / (1 + seen.phi.square().mean(-1, keepdim=True)).sqrt()],
    "loss": lambda _, seen, state: [_relative(seen.loss, state["loss_first"])],
    "loss_change": lambda _, seen, state: [_relative(seen.loss, state["loss_average"])],
    "metric": lambda _, seen, state: [_relative(seen.metric, state["metric_first"])],
    "metric_change": lambda _, seen, state: [_relative(seen.metric, state["metric_average"])],
    "metric_gradient": lambda _, seen, __: [_unit(seen.metric_gradient)],
    "time": lambda _, __, state: [(state["steps"].unsqueeze(-1) / scale - 1).tanh() for scale in TIMES],
}
