"""What an adapter does to a network's output, done by the network itself for some time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def finishing(net: nn.Module, finish: Callable[[Any], Any], *, layer: str | None) -> Iterator[None]:
    """Within this context the output of `net`, or of the layer named that gives it, is what `finish` makes of it.

    Example:
        >>> net = nn.Identity()
        >>> with finishing(net, lambda output: 2 * output, layer=None):
        ...     net(torch.ones(1)), net.forward(torch.ones(1))
        (tensor([2.]), tensor([2.]))
        >>> net(torch.ones(1))
        tensor([1.])
    """
    if layer is not None:
        handle = net.get_submodule(layer).register_forward_hook(lambda _layer, _inputs, output: finish(output))
        try:
            yield
        finally:
            handle.remove()
        return
    before = {name: value for name, value in vars(net).items() if name == "forward"}
    # Not a hook of the network: those do not act in methods that call `self.forward(x)`.
    vars(net)["forward"] = _finished(net.forward, finish)
    try:
        yield
    finally:
        vars(net).pop("forward")
        vars(net).update(before)


def gives_output(net: nn.Module, layer: str, compute: Callable[[], Tensor]) -> bool:
    """Whether what `compute` gives is what the named layer gave, and nothing else has become of it but its shape.

    Example:
        >>> net, x = nn.Sequential(nn.Linear(4, 1), nn.Flatten(0)), torch.ones(5, 4)
        >>> gives_output(net, "0", lambda: net(x)), gives_output(net, "0", lambda: net(x).sigmoid())
        (True, False)
    """
    given: list[Any] = []
    handle = net.get_submodule(layer).register_forward_hook(lambda _layer, _inputs, output: given.append(output))
    try:
        with torch.no_grad():
            output = compute()
    finally:
        handle.remove()
    return len(given) == 1 and isinstance(given[0], Tensor) and torch.equal(given[0].flatten(), output.flatten())


def _finished(forward: Callable[..., Any], finish: Callable[[Any], Any]) -> Callable[..., Any]:
    inside = False

    def finished(*inputs: Any, **named: Any) -> Any:
        nonlocal inside
        if inside:  # a network that calls itself is finished once
            return forward(*inputs, **named)
        inside = True
        try:
            output = forward(*inputs, **named)
        finally:
            inside = False
        return finish(output)

    return finished
