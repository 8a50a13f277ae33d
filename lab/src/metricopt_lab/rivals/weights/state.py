"""Weights and buffers of a network as a dictionary: copied, mixed, and put to use."""

import hashlib
from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.func import functional_call

State = dict[str, Tensor]
"""Weights and buffers by name; of a population with one more dimension in front."""

_ROWS_AT_ONCE = 4096


def state_of(net: nn.Module) -> State:
    """A copy of weights and buffers.

    Example:
        >>> sorted(state_of(nn.BatchNorm1d(2)))
        ['bias', 'num_batches_tracked', 'running_mean', 'running_var', 'weight']
    """
    whole = {**dict(net.named_parameters()), **dict(net.named_buffers())}
    return {name: tensor.detach().clone() for name, tensor in whole.items()}


def digest(state: State) -> str:
    """A hash of all of it.

    Example:
        >>> digest({"w": torch.zeros(1)}) == digest({"w": torch.ones(1)})
        False
    """
    found = hashlib.sha256()
    for name, tensor in state.items():
        found.update(name.encode())
        found.update(tensor.contiguous().numpy().tobytes())
    return found.hexdigest()


def between(original: State, tuned: State, share: float) -> State:
    """The way from one state to another, a share of it; counts stay the original's.

    Example:
        >>> between({"w": torch.zeros(1)}, {"w": torch.ones(1)}, 0.25)
        {'w': tensor([0.2500])}
    """
    return {name: torch.lerp(before, tuned[name], share) if before.is_floating_point() else before
            for name, before in original.items()}  # fmt: skip


def mean_of(states: Sequence[State]) -> State:
    """The mean of weights and statistics, which is a network again where all began at the same weights.

    Example:
        >>> mean_of([{"w": torch.zeros(1)}, {"w": torch.ones(1)}])
        {'w': tensor([0.5000])}
    """
    return {name: torch.stack([state[name].double() for state in states]).mean(0).to(first.dtype)
            for name, first in states[0].items()}  # fmt: skip


def outputs_of(net: nn.Module, states: Sequence[State], inputs: Tensor) -> Tensor:
    """Outputs of a network with each of the states in eval mode, (states, n) or (states, n, outputs).

    Example:
        >>> outputs_of(nn.Flatten(0), [{}, {}], torch.ones(3, 1)).shape
        torch.Size([2, 3])
    """
    model = deepcopy(net).eval()
    with torch.inference_mode():
        found = [torch.cat([functional_call(model, state, (some,)) for some in inputs.split(_ROWS_AT_ONCE)])
                 for state in states]  # fmt: skip
    return torch.stack(found).clone()
