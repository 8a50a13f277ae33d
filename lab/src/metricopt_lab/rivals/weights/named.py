"""The registry of rivals that move the weights: what they share is rows, finetunings and an honest count of calls."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from metricopt.core.registry import Registry
from metricopt_lab.rivals.weights.finetunings import Clock, Finetunings
from metricopt_lab.rivals.weights.state import State


@dataclass(frozen=True, eq=False)
class Tuned:
    """What a rival hands back.

    Attributes:
        state: Weights and buffers.
        bias: What is added to the outputs.
        calls: Calls of the metric.
        took: Its time, that of the finetunings it chose among included.
        details: Anything worth knowing.
    """

    state: State
    bias: Tensor
    calls: int
    took: Clock
    details: dict[str, float | str] = field(default_factory=dict)


class WeightRival(Protocol):
    """A way to a better network by labels and at most `calls` calls of the metric; None where it has none."""

    def __call__(self, shared: Finetunings, *, calls: int) -> Tuned | None: ...


@dataclass(frozen=True)
class Named:
    """A registered rival.

    Attributes:
        name: Its name in tables.
        run: `run(finetunings, calls=...)`.
        about: One line about it.
        version: To be bumped by hand with any change of its results.
    """

    name: str
    run: WeightRival
    about: str
    version: int


WEIGHT_RIVALS: Registry[Named] = Registry("rival")
"""The rivals by name."""


def weight_rival(name: str, *, version: int = 1) -> Callable[[WeightRival], WeightRival]:
    """Decorator that registers a rival under `name`; the first line of its docstring says what it is."""

    def register(rival: WeightRival) -> WeightRival:
        about = (inspect.getdoc(rival) or "").partition("\n")[0]
        WEIGHT_RIVALS.add(name)(Named(name, rival, about, version))
        return rival

    return register
