"""What a learned optimizer sees of one step, and what any rule of updates has to offer to be trained and used."""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

State = dict[str, Tensor]
"""What a rule remembers between steps, each tensor with one row a member."""


class Signals(NamedTuple):
    """What is known at one step, of each member of a population.

    Attributes:
        phi: Parameters, (members, dim).
        gradient: Of the loss there, (members, dim).
        loss: On the mini-batch of the step, (members,).
        metric: The latest estimate of the cost, NaN where there is none yet, (members,).
        metric_gradient: That of a value function, should one be asked at every step; zeros otherwise, (members, dim).

    Example:
        >>> zeros = torch.zeros(2, 3)
        >>> Signals(zeros, zeros, torch.zeros(2), torch.full((2,), torch.nan), zeros).phi.shape
        torch.Size([2, 3])
    """

    phi: Tensor
    gradient: Tensor
    loss: Tensor
    metric: Tensor
    metric_gradient: Tensor


class Rule(Protocol):
    """An update rule with weights, computed for a population with one set of weights a member.

    Attributes:
        size: Number of weights.
        lr: What updates are multiplied with unless a user says otherwise.
        needs_loss: Whether it looks at the loss.
        needs_value: Whether it looks at the gradient of a value function.
    """

    @property
    def size(self) -> int: ...

    @property
    def lr(self) -> float: ...

    @property
    def needs_loss(self) -> bool: ...

    @property
    def needs_value(self) -> bool: ...

    def initial(self, generator: torch.Generator) -> Tensor:
        """Weights to start meta-training from, (size,)."""
        ...

    def start(self, phi: Tensor) -> State:
        """What is remembered before the first step of members (members, dim)."""
        ...

    def update(self, weights: Tensor, seen: Signals, state: State) -> tuple[Tensor, State]:
        """What is added to phi at lr = 1, (members, dim), and what is remembered; weights are (members, size)."""
        ...
