"""What guidance remembers of the loss gradients: the last k of them, which span its search, and their usual length."""

from typing import Any

import torch
from torch import Tensor


def no_gradients(population: int, memory: int, dim: int) -> dict[str, Any]:
    """The state before the first step: `past_gradients`, `mean_square` of their lengths, and `steps`.

    In the processor's memory wherever phi is, as the guidance is computed there, and in double precision: whether a
    gradient depends on the others is seen in digits that single precision does not have.

    Example:
        >>> no_gradients(2, 3, 5)["past_gradients"].shape
        torch.Size([2, 3, 5])
    """
    return {
        "past_gradients": torch.zeros(population, memory, dim, dtype=torch.float64),
        "mean_square": torch.zeros(population, 1, dtype=torch.float64),
        "steps": 0,
    }


def remember(state: dict[str, Any], gradients: Tensor) -> None:
    """Put gradients (population, dim) in the place of the oldest ones; entries that are not finite count as zero.

    Example:
        >>> state = no_gradients(1, 2, 2)
        >>> for gradient in ([[3.0, 4.0]], [[0.0, 0.0]], [[1.0, torch.nan]]):
        ...     remember(state, torch.tensor(gradient))
        >>> state["past_gradients"].tolist(), state["mean_square"].round(decimals=2).item()
        ([[[1.0, 0.0], [0.0, 0.0]]], 8.67)
    """
    rows = gradients.detach().cpu().double().nan_to_num(0.0, 0.0, 0.0)
    squares = rows.square().sum(1, keepdim=True)  # (population, 1)
    past = state["past_gradients"]
    past[:, state["steps"] % past.shape[1]] = rows  # their order does not matter
    state["steps"] += 1
    state["mean_square"] += (squares - state["mean_square"]) / state["steps"]
