"""A network whose layers and weights are others for a while: hooks that are put on and taken off again."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from metricopt.adapters.spec import Hook, Parts
from metricopt.adapters.weight_directions import weights_of


@contextmanager
def hooked(net: nn.Module, parts: Parts) -> Iterator[set[str]]:
    """Within this context the layers of `net` are modulated; gives the set of those called so far."""
    called: set[str] = set()
    handles = []
    try:
        for part, phi in parts:
            for name, hook in part.hooks(phi).items():
                noted = partial(_note, called, name, hook)
                handles.append(net.get_submodule(name).register_forward_hook(noted))
        yield called
    finally:
        for handle in handles:
            handle.remove()


def _note(called: set[str], name: str, hook: Hook, layer: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
    called.add(name)
    return hook(layer, inputs, output)


def moved_weights(net: nn.Module, parts: Parts) -> dict[str, Tensor]:
    """The weights that are others, by name."""
    original, found = weights_of(net), {}
    for part, phi in parts:
        found |= part.moved(phi, original | found)
    return found


def at_the_original(phi: Tensor) -> bool:
    """Whether phi is 0 and nobody asks for a derivative: then no weight has to be copied."""
    if torch.is_grad_enabled():
        return False
    try:
        return not bool(phi.any())
    except RuntimeError:  # one of many phi within vmap, at whose numbers nobody can look
        return False


def has_attention(net: nn.Module) -> bool:
    """Whether torch has a fused inference path for some layer of a network."""
    return any(isinstance(module, nn.MultiheadAttention) for module in net.modules())


@contextmanager
def without_fused_attention() -> Iterator[None]:
    """Without torch's fused inference path, which bypasses the hooks of the layers inside and has no vmap rule."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
