"""Settings of a search at its end as a prior for the next one: how far it looks, and how it believes costs to vary."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from metricopt.gaussian_process import Hyperparameters
from metricopt.search.recipe import Recipe

_UNTIL = 25  # answers, from where a search knows better itself


@final
@dataclass(frozen=True)
class CarriedSettings:
    """Hyper-parameters and trust region of another search.

    Attributes:
        radius_there: Of its trust region.
        length: Of its process, in median distances between points answered.
        noise: Variance of an answer in units of the signal's.

    Example:
        >>> CarriedSettings(0.1, 2.0, 0.01).radius(Recipe())
        0.15811388300841897
    """

    radius_there: float
    length: float
    noise: float

    def radius(self, recipe: Recipe) -> float:
        """The first radius here: between the usual one and the last one there, in ratio."""
        there = min(max(self.radius_there, recipe.smallest), 2.0)
        return (recipe.radius * there) ** 0.5

    def serve(self, answers: int) -> bool:
        """Whether so few answers are better explained by what was found there."""
        return answers < _UNTIL

    def hyperparameters(self, squares: Tensor, costs: Tensor) -> Hyperparameters:
        """For costs (n,) of points with squared distances (n, n)."""
        signal = costs.double().var().clamp_min(1e-12)
        return Hyperparameters(
            length_scale=self.length * _usual(squares),
            signal_variance=signal,
            noise_variance=self.noise * signal,
            mean=costs.double().mean(),
        )


def settings_from(numbers: Mapping[str, float]) -> CarriedSettings | None:
    """What a value function says of its search; None if that ended before it had a process.

    Example:
        >>> settings_from({"radius": 0.1, "length": 2.0, "noise": 0.01}).length
        2.0
    """
    if not {"radius", "length", "noise"} <= set(numbers):
        return None
    return CarriedSettings(numbers["radius"], numbers["length"], numbers["noise"])


def settings_at_end(found: Hyperparameters, squares: Tensor, radius: float) -> dict[str, float]:
    """Those of a search whose process over points with squared distances (n, n) has these hyper-parameters."""
    return {
        "radius": radius,
        "length": float(found.length_scale / _usual(squares)),
        "noise": float(found.noise_variance / found.signal_variance),
    }


def _usual(squares: Tensor) -> Tensor:
    """The median distance."""
    apart = squares[squares > 0]
    return apart.median().sqrt() if len(apart) else torch.ones((), dtype=squares.dtype)
