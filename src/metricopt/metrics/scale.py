"""Values of a metric as costs in [0, 1], lower is better, and back: linear within bounds, squashed without them."""

import math
from dataclasses import dataclass
from typing import Literal, TypeVar

from torch import Tensor

Goal = Literal["max", "min"]
Number = TypeVar("Number", float, Tensor)


@dataclass(frozen=True)
class Linear:
    """Between two finite bounds the cost is the share of the way from the best to the worst; beyond them it is cut off.

    Example:
        >>> percent = Linear("max", 0.0, 100.0)
        >>> percent.cost(75.0), percent.natural(0.25), percent.cost(-20.0)
        (0.25, 75.0, 1.0)
    """

    goal: Goal
    low: float
    high: float

    def cost(self, value: Number) -> Number:
        """Cost of a value in natural units."""
        share = (value - self.low) / (self.high - self.low)
        return _cut(1.0 - share if self.goal == "max" else share)

    def natural(self, cost: Number) -> Number:
        """The value whose cost it is."""
        return self.low + (self.high - self.low) * (1.0 - cost if self.goal == "max" else cost)


@dataclass(frozen=True)
class Squashed:
    """Where there is no bound to measure shares by: 1/2 + arctan((value - reference) / spread) / pi, or 1 minus that.

    It is strictly monotone, so that the order of two models never depends on `reference` and `spread`, nearly linear
    within a spread of the reference, and takes in any finite value: a terrible one costs almost 1. `natural` is its
    inverse up to rounding, which is a relative 1e-15 near the reference and grows with the square of the distance.

    Attributes:
        goal: Which way is better.
        reference: The value that costs 1/2: that of the original model.
        spread: Distance from it that is worth a quarter.
        low: Smallest value there can be, if there is one.
        high: Largest value there can be, if there is one.

    Example:
        >>> error = Squashed("min", reference=30.0, spread=30.0, low=0.0)
        >>> error.cost(30.0), error.cost(0.0), error.cost(60.0), round(error.natural(0.25), 9)
        (0.5, 0.25, 0.75, 0.0)
        >>> error.cost(1e300), error.natural(0.0)
        (1.0, 0.0)
    """

    goal: Goal
    reference: float = 0.0
    spread: float = 1.0
    low: float = -math.inf
    high: float = math.inf

    def cost(self, value: Number) -> Number:
        """Cost of a value in natural units."""
        sign = -1.0 if self.goal == "max" else 1.0
        steps = sign * (value - self.reference) / self.spread
        if isinstance(steps, Tensor):
            return _cut(0.5 + steps.double().atan() / math.pi)
        return _cut(0.5 + math.atan(steps) / math.pi)

    def natural(self, cost: Number) -> Number:
        """The value whose cost it is."""
        angle = math.pi * (0.5 - cost if self.goal == "max" else cost - 0.5)
        if isinstance(angle, Tensor):
            return (self.reference + self.spread * angle.double().tan()).clamp(self.low, self.high)
        return min(max(self.reference + self.spread * math.tan(angle), self.low), self.high)


Scale = Linear | Squashed


def scale_of(goal: Goal, bounds: tuple[float, float]) -> Scale:
    """Linear between finite bounds, squashed around 0 otherwise.

    Example:
        >>> scale_of("max", (0.0, 1.0)), type(scale_of("min", (0.0, math.inf))).__name__
        (Linear(goal='max', low=0.0, high=1.0), 'Squashed')
    """
    low, high = bounds
    return Linear(goal, low, high) if math.isfinite(high - low) else Squashed(goal, low=low, high=high)


def _cut(cost: Number) -> Number:
    return cost.clamp(0.0, 1.0) if isinstance(cost, Tensor) else min(max(cost, 0.0), 1.0)
