"""What `MetricGuided` refuses, each in one sentence."""

from typing import Any

import torch
from torch.optim import Optimizer

from metricopt.core.errors import FileFormatError


def only_parameter(base: Optimizer) -> torch.nn.Parameter:
    """The one parameter phi of an optimizer.

    Example:
        >>> phi = torch.nn.Parameter(torch.zeros(3))
        >>> only_parameter(torch.optim.SGD([phi])) is phi
        True
    """
    parameters = [parameter for group in base.param_groups for parameter in group["params"]]
    if len(parameters) != 1 or parameters[0].dim() not in (1, 2):
        shapes = ", ".join(str(tuple(parameter.shape)) for parameter in parameters[:5])
        raise ValueError(
            f"the base optimizer has {len(parameters)} parameters of shapes {shapes}; expected phi alone, (dim,) or "
            f"(population, dim): pass [model.phi]"
        )
    return parameters[0]


def check_numbers(*, pairs: int, memory: int, sigma: float, weight: float) -> None:
    """Raise unless Eqs. 3 and 4 can be computed with them.

    Example:
        >>> check_numbers(pairs=3, memory=3, sigma=0.1, weight=1.0)
    """
    for name, found, least in (("pairs", pairs, 1), ("memory", memory, 1), ("weight", weight, 0)):
        if found < least:
            raise ValueError(f"{name} is {found}; expected at least {least}")
    if sigma <= 0:
        raise ValueError(f"sigma is {sigma}; expected a positive number such as 0.1")


def check_saved(state: dict[str, Any], *, expected: tuple[int, ...]) -> None:
    """Raise unless a saved optimizer state is one of `MetricGuided` with past gradients of the expected shape.

    Example:
        >>> check_saved({"guided": {"past_gradients": torch.zeros(1, 3, 4)}}, expected=(1, 3, 4))
    """
    if "guided" not in state:
        raise FileFormatError(
            f"the optimizer state has {sorted(state)} but no 'guided', so it is not from MetricGuided; "
            f"load it into the base optimizer"
        )
    found = tuple(state["guided"]["past_gradients"].shape)
    if found != expected:
        raise FileFormatError(
            f"the optimizer state holds past gradients of shape {found}, expected {expected}; "
            f"use the phi and the memory it was saved with"
        )
