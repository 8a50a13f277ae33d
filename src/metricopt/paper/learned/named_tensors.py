"""Tensors by name, as a checkpoint keeps them: in parts, and those of Adam."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


def in_parts(**parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of several parts in one, each named by its part first.

    Example:
        >>> list(in_parts(value={"w": torch.ones(1)}, steps={"w": torch.zeros(1)}))
        ['value.w', 'steps.w']
    """
    return {f"{part}.{name}": tensor for part, own in parts.items() for name, tensor in own.items()}


def part_of(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """The tensors of one part, by the names that they have there.

    Example:
        >>> part_of(in_parts(value={"w": torch.ones(1)}, steps={"w": torch.zeros(1)}), "steps")
        {'w': tensor([0.])}
    """
    prefix = f"{part}."
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def adam_tensors(adam: torch.optim.Adam) -> dict[str, Tensor]:
    """Adam's state by name.

    Example:
        >>> adam = torch.optim.Adam([torch.nn.Parameter(torch.zeros(2))])
        >>> adam_tensors(adam)
        {}
    """
    state: dict[int, dict[str, Any]] = adam.state_dict()["state"]
    return {f"{number}.{name}": tensor for number, own in state.items() for name, tensor in own.items()}


def load_adam(adam: torch.optim.Adam, tensors: dict[str, Tensor]) -> None:
    """Put a state by name back.

    Example:
        >>> weights = torch.nn.Parameter(torch.ones(2))
        >>> adam, other = torch.optim.Adam([weights]), torch.optim.Adam([weights])
        >>> weights.sum().backward()
        >>> adam.step()
        >>> load_adam(other, adam_tensors(adam))
        >>> torch.equal(other.state[weights]["exp_avg"], adam.state[weights]["exp_avg"])
        True
    """
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        number, _, key = name.partition(".")
        state.setdefault(int(number), {})[key] = tensor
    adam.load_state_dict({**adam.state_dict(), "state": state})
