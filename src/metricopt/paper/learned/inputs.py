"""What Eq. S1's MLP looks at: of each coordinate, and of the whole."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import torch
from torch import Tensor

from metricopt.core.registry import one_of
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

OF_EACH = ("gradient", "average", "phi", "metric_gradient")
"""Those that every coordinate has one of; the others are the same for all of them."""

_SMALLEST = 1e-8  # of a gradient: its size differs between problems by many orders
_DECAY = 0.9  # of the averages of loss and metric


@final
@dataclass(frozen=True)
class Inputs:
    """Named inputs and the memory they need.

    Gradients are divided by their root mean square over the coordinates, phi by sqrt(1 + its mean square): what one
    problem teaches is of use in another.

    Attributes:
        features: Names of the inputs.
        decays: Of the running averages of the gradient, one input each.

    Example:
        >>> Inputs(EQUATION_S1, (0.9,)).count("average"), Inputs(LOSS_ONLY, (0.5, 0.9)).count("average")
        (1, 2)
    """

    features: tuple[str, ...]
    decays: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in self.features:
            one_of(name, tuple(_INPUTS), what="feature")
        if "average" not in self.features or not self.decays:
            raise ValueError(
                f"features are {self.features} and decays {self.decays}; expected an 'average' with a decay: training "
                f"starts from a step along it"
            )

    def count(self, name: str) -> int:
        """How many inputs a feature gives a coordinate."""
        return {"average": len(self.decays), "time": len(TIMES)}.get(name, 1)

    def first(self, feature: str) -> int:
        """Number of its first input."""
        return sum(self.count(name) for name in self.features[: self.features.index(feature)])

    @property
    def need_loss(self) -> bool:
        """Whether they are about the loss."""
        return any(name.startswith("loss") for name in self.features)

    @property
    def need_value(self) -> bool:
        """Whether they are about the gradient of a value function."""
        return "metric_gradient" in self.features

    def start(self, phi: Tensor) -> State:
        """No averages yet; NaN for a loss and a metric that nobody has seen."""
        unknown = torch.full_like(phi[:, 0], torch.nan)
        names = ("loss_first", "loss_average", "metric_first", "metric_average")
        averages = torch.zeros(len(phi), len(self.decays), phi.shape[1], dtype=phi.dtype, device=phi.device)
        steps = torch.zeros_like(unknown)
        return {"averages": averages, "steps": steps, **{name: unknown.clone() for name in names}}

    def columns(self, seen: Signals, state: State) -> tuple[list[Tensor], State]:
        """The inputs in their order, each (members, dim) or, the same for all coordinates, (members, 1); and memory."""
        state = self._remembered(seen, state)
        return [column for name in self.features for column in _INPUTS[name](seen, state)], state

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


def root_mean_square_one(vector: Tensor) -> Tensor:
    """Divided by its root mean square over the last dimension.

    Example:
        >>> root_mean_square_one(torch.tensor([3.0, -3.0]))
        tensor([ 1., -1.])
    """
    return vector / (vector.square().mean(-1, keepdim=True) + _SMALLEST**2).sqrt()


def _relative(value: Tensor, reference: Tensor) -> Tensor:
    """Relative difference, (members, 1), between -1 and 1; 0 where either is unknown."""
    known = ~(value.isnan() | reference.isnan())
    # NaN is replaced before the division: its derivative would be NaN even where the result is not taken.
    value, reference = torch.where(known, value, 1.0), torch.where(known, reference, 1.0)
    return torch.tanh((value - reference) / (reference.abs() + _SMALLEST)).unsqueeze(-1)


_INPUTS: dict[str, Callable[[Signals, State], list[Tensor]]] = {
    "gradient": lambda seen, _: [root_mean_square_one(seen.gradient)],
    "average": lambda _, state: list(root_mean_square_one(state["averages"]).unbind(1)),
    "phi": lambda seen, _: [seen.phi / (1 + seen.phi.square().mean(-1, keepdim=True)).sqrt()],
    "loss": lambda seen, state: [_relative(seen.loss, state["loss_first"])],
    "loss_change": lambda seen, state: [_relative(seen.loss, state["loss_average"])],
    "metric": lambda seen, state: [_relative(seen.metric, state["metric_first"])],
    "metric_change": lambda seen, state: [_relative(seen.metric, state["metric_average"])],
    "metric_gradient": lambda seen, _: [root_mean_square_one(seen.metric_gradient)],
    "time": lambda _, state: [(state["steps"].unsqueeze(-1) / scale - 1).tanh() for scale in TIMES],
}


class SeesInputs(ABC):
    """A rule whose MLP looks at named inputs: what follows from these and from the widths of its layers."""

    @property
    @abstractmethod
    def _inputs(self) -> Inputs: ...

    @property
    @abstractmethod
    def widths(self) -> tuple[int, ...]:
        """Of all layers, inputs and outputs included."""

    @property
    def size(self) -> int:
        """Number of weights."""
        return sum((a + 1) * b for a, b in pairwise(self.widths))

    @property
    def needs_loss(self) -> bool:
        """Whether it looks at the loss."""
        return self._inputs.need_loss

    @property
    def needs_value(self) -> bool:
        """Whether it looks at the gradient of a value function."""
        return self._inputs.need_value
