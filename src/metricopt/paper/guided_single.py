"""The guidance of a single phi, which is the usual case of finetuning, in as few calls as possible.

Within a step of finetuning the processor's caches are full of the network's own work, and the first call of any
function takes several times as long as when it is repeated. For one phi that is nearly all of the time. So what
`guided_es` says for a population is written out here for one phi, in one function and without the axis of members; to
understand Eqs. 3 and 4 read `guided_es`. Tests hold both to the same numbers.
"""

import math
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from metricopt.paper.guided_es import variances
from metricopt.paper.orthonormal import combinations_of_one


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


class SinglePhi:
    """The past gradients of one phi, and the directions that Eqs. 3 and 4 give with them.

    Args:
        state: Of `MetricGuided`; its tensors stay up to date.
        pairs: P, antithetic pairs.
        sigma: s, size of the perturbations.
        dtype: Of phi.

    Attributes:
        mean_square: Of the lengths of all gradients so far.

    Example:
        >>> double = {"dtype": torch.float64}
        >>> state = {"past_gradients": torch.zeros(1, 3, 2, **double), "mean_square": torch.zeros(1, 1, **double)}
        >>> single = SinglePhi(state | {"steps": 0}, pairs=1, sigma=0.1, dtype=torch.float32)
        >>> phi, gradient = np.zeros(2, np.float32), torch.tensor([3.0, 4.0])
        >>> single.direction(lambda points: points[:, 0], phi, gradient, torch.Generator().manual_seed(0)).shape
        (2,)
        >>> single.mean_square
        25.0
    """

    def __init__(self, state: dict[str, Any], *, pairs: int, sigma: float, dtype: torch.dtype) -> None:
        self.settings = pairs, sigma, dtype
        self._state = state
        past: Tensor = state["past_gradients"]
        _, memory, dim = past.shape
        self._rows, self._gradients = past[0].unbind(), past[0].numpy()
        self._mean_square = state["mean_square"].numpy().reshape(-1)
        self.mean_square: float = self._mean_square.item()
        self._transposed = self._gradients.T
        # Filled anew at each step: to make an array would take longer than to fill it. One piece of memory holds the
        # points' distances -delta and delta, then the coordinates within the subspace: all but -delta begin as noise.
        memories = torch.empty(pairs * (2 * dim + memory), dtype=dtype)
        self._noise, numbers = memories[pairs * dim :], memories.numpy()
        self._deltas = numbers[: 2 * pairs * dim].reshape(2 * pairs, dim)
        self._minus, self._plus = self._deltas[:pairs], self._deltas[pairs:]
        within = numbers[2 * pairs * dim :].reshape(pairs, memory)
        self._within = [within[:, :rank] for rank in range(memory + 1)]
        deviations = [[math.sqrt(variance) for variance in variances(dim, rank)] for rank in range(memory + 1)]
        self._sizes = [sigma * everywhere for everywhere, _ in deviations]
        # Of the basis, which makes up for the size of the noise.
        self._lengths = [subspace / everywhere for everywhere, subspace in deviations]
        self._address, self._point = 0, np.empty(0)
        self._sum = torch.empty(dim, dtype=dtype)
        self._numbers = self._sum.numpy()

    def point(self, phi: Tensor) -> np.ndarray:
        """The numbers of phi in its own memory, (dim,)."""
        address = phi.data_ptr()
        if address != self._address:
            self._address, self._point = address, phi.detach().numpy().reshape(-1)
        return self._point

    def added(self, gradient: Tensor, guided: np.ndarray) -> Tensor:
        """The sum of a gradient and what guides it, (dim,)."""
        self._sum.copy_(gradient)
        numbers = self._numbers
        numbers += guided
        return self._sum.clone()  # an optimizer may keep it

    def remember(self, gradient: Tensor) -> list[list[float]]:
        """Put the gradient in the place of the oldest one; gives the inner products of all of them."""
        state, gradients = self._state, self._gradients
        place = state["steps"] % len(gradients)
        self._rows[place].copy_(gradient)
        products = gradients.dot(self._transposed).tolist()
        if not math.isfinite(products[place][place]):
            gradients[place] = np.nan_to_num(gradients[place], nan=0.0, posinf=0.0, neginf=0.0)
            products = gradients.dot(self._transposed).tolist()
        state["steps"] += 1
        self.mean_square += (products[place][place] - self.mean_square) / state["steps"]
        self._mean_square[0] = self.mean_square
        return products

    def direction(
        self,
        value: Callable[[np.ndarray], np.ndarray],
        phi: np.ndarray,
        gradient: Tensor,
        generator: torch.Generator,
    ) -> np.ndarray:
        """u of Eq. 4 times s^2 P, (dim,), at phi, (dim,), after the present gradient has been remembered."""
        combinations, plus = combinations_of_one(self.remember(gradient), self._lengths), self._plus
        rank = len(combinations)
        self._noise.normal_(0.0, self._sizes[rank], generator=generator)
        if rank:
            basis = np.array(combinations).dot(self._gradients).astype(plus.dtype)  # (rank, dim)
            plus += self._within[rank].dot(basis)
        np.negative(plus, out=self._minus)
        values, pairs = value(self._deltas + phi), len(plus)
        return (values[pairs:] - values[:pairs]).dot(plus)
