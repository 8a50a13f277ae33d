"""What `MetricGuided` refuses, each in one sentence."""

import torch
from torch.optim import Optimizer


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


def check_choice(name: str, found: str, choices: tuple[str, ...]) -> None:
    """Raise unless it is one of them.

    Example:
        >>> check_choice("combine", "add", ("add", "replace"))
    """
    if found not in choices:
        raise ValueError(f"{name} is {found!r}; expected one of {', '.join(choices)}")


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
