"""A value function as guidance asks it: in eval mode, on its own device, with tensors or with arrays."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

ValueFunction = Callable[[Tensor], Tensor]
"""f: from points (n, dim) to predicted costs (n,), lower is better; no row influences another."""


@runtime_checkable
class OnHost(Protocol):
    """A value function that may also be asked with arrays in the processor's memory, at a fraction of the cost.

    Example:
        >>> isinstance(torch.nn.Linear(2, 1), OnHost)
        False
    """

    def on_host(self, points: np.ndarray) -> np.ndarray | None:
        """What it gives, in eval mode, for points (n, dim); None where it has to be asked with tensors."""
        ...


class EvaluatedValue:
    """A value function in eval mode, for points in the processor's memory.

    Args:
        value: A module is asked on its own device, any other function on that of phi.
        phi: Whose device that is.

    Example:
        >>> network = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 1), torch.nn.Flatten(0))
        >>> value = EvaluatedValue(network, torch.zeros(2))
        >>> value(torch.ones(3, 2)).shape, network.training
        (torch.Size([3]), True)
    """

    def __init__(self, value: ValueFunction, phi: Tensor) -> None:
        self.value = value
        self._phi = phi
        self._module = value if isinstance(value, torch.nn.Module) else None
        self._parts = () if self._module is None else tuple(self._module.modules())
        self._on_host = value.on_host if isinstance(value, OnHost) else None

    def __call__(self, points: Tensor) -> Tensor:
        """Values of points (n, dim), differentiable in them."""
        with self._evaluating():
            return self.value(points.to(self._device())).to(points.device)

    def of_array(self, points: np.ndarray) -> np.ndarray:
        """Values (n,) of points (n, dim)."""
        values = None if self._on_host is None else self._on_host(points)
        if values is not None:
            return values
        with torch.no_grad():
            return self(torch.from_numpy(points)).numpy().reshape(-1)

    def _device(self) -> torch.device:
        if self._module is None:
            return self._phi.device
        own = chain(self._module.parameters(), self._module.buffers())
        return next(own, self._phi).device

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        # BatchNorm in train mode would mix the perturbed copies: f(phi + delta) would depend on the other rows,
        # and the antithetic difference would no longer be about delta.
        training = [module for module in self._parts if module.training]
        for module in training:
            module.training = False
        try:
            yield
        finally:
            for module in training:
                module.training = True
