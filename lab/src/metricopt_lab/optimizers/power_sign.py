"""PowerSign-cd of Bello et al. (2017): an update rule that a search found, with its cosine decay."""

import math
from collections.abc import Callable, Iterable
from typing import Any, final

import torch
from torch.optim import Optimizer


@final
class PowerSign(Optimizer):
    """Steps of -lr exp(f(t) sign g sign m) g with f(t) = (1 + cos(pi t / T)) / 2 and m the average gradient.

    Args:
        params: Parameters or groups of them.
        lr: Rate.
        steps: T, after which the sign counts no more.
        beta: Decay of the average.

    Example:
        >>> phi = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
        >>> optimizer = PowerSign([phi], lr=0.1, steps=10)
        >>> phi.square().sum().backward()
        >>> optimizer.step()  # of e times the gradient: it agrees with its average
        >>> torch.allclose(phi, (1 - 0.2 * math.e) * torch.tensor([1.0, -2.0]))
        True
    """

    def __init__(self, params: Iterable[Any], *, lr: float, steps: int, beta: float = 0.9) -> None:
        super().__init__(params, {"lr": lr, "steps": steps, "beta": beta})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One step; returns what `closure` returned."""
        told = None
        if closure is not None:
            with torch.enable_grad():
                told = closure()
        for group in self.param_groups:
            for parameter in (each for each in group["params"] if each.grad is not None):
                state, gradient = self.state[parameter], parameter.grad
                average = state.setdefault("average", torch.zeros_like(parameter))
                average.lerp_(gradient, 1 - group["beta"])
                done = min(state.get("step", 0) / group["steps"], 1.0)
                state["step"] = state.get("step", 0) + 1
                power = 0.5 * (1 + math.cos(math.pi * done)) * gradient.sign() * average.sign()
                parameter.sub_(group["lr"] * power.exp() * gradient)
        return told
