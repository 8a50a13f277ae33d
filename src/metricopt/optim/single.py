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

from metricopt.optim.guided_es import variances
from metricopt.optim.orthonormal import combinations_of_one


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

    Example:
        >>> state = {"past_gradients": torch.zeros(1, 3, 2), "mean_square": torch.zeros(1, 1), "steps": 0}
        >>> phi, slope = np.zeros(2, np.float32), np.array([3.0, 4.0], np.float32)
        >>> direction = SinglePhi(state, pairs=1, sigma=0.1).direction(
        ...     lambda points: points.dot(slope), phi, slope, torch.Generator().manual_seed(0)
        ... )
        >>> direction.shape, state["mean_square"]
        ((2,), tensor([[25.]]))
    """

    def __init__(self, state: dict[str, Any], *, pairs: int, sigma: float) -> None:
        self.settings = pairs, sigma
        self._state = state
        past: Tensor = state["past_gradients"]
        _, memory, dim = past.shape
        self._past, self._mean_square = past[0].numpy(), state["mean_square"].numpy()
        self._gradients = _finite(self._past.astype(np.float64))
        # Filled anew at each step: to make a tensor would take longer than to fill it.
        self._noise = torch.empty(pairs, dim + memory, dtype=past.dtype)
        self._normal = self._noise.numpy()
        self._deviations = [
            _deviations(dim, memory, rank, sigma).astype(self._past.dtype) for rank in range(memory + 1)
        ]

    def remember(self, gradient: np.ndarray) -> list[list[float]]:
        """Put the gradient in the place of the oldest one; gives the inner products of all of them."""
        state, gradients = self._state, self._gradients
        place = state["steps"] % len(gradients)
        self._past[place] = gradients[place] = gradient
        products = gradients.dot(gradients.T).tolist()
        if not math.isfinite(products[place][place]):
            gradient = gradients[place] = _finite(gradient)
            products = gradients.dot(gradients.T).tolist()
        state["steps"] += 1
        # In the gradient's own precision, as `MetricGuided` does: where the last digit of a path differs, another
        # gradient may be the first of the next basis.
        square, mean = np.einsum("d,d->", gradient, gradient), self._mean_square[0, 0]
        self._mean_square[0, 0] = mean + (square - mean) / state["steps"]
        return products

    @property
    def root_mean_square(self) -> np.floating:
        """Of the lengths of all gradients so far."""
        return self._past.dtype.type(math.sqrt(self._mean_square[0, 0]))

    def direction(
        self,
        value: Callable[[np.ndarray], np.ndarray],
        phi: np.ndarray,
        gradient: np.ndarray,
        generator: torch.Generator,
    ) -> np.ndarray:
        """u of Eq. 4, (dim,), at phi, (dim,), after the present gradient has been remembered."""
        combinations, dim = combinations_of_one(self.remember(gradient)), len(phi)
        rank, (pairs, sigma), normal = len(combinations), self.settings, self._normal
        self._noise.normal_(generator=generator)
        normal *= self._deviations[rank]
        deltas = normal[:, :dim]  # (pairs, dim)
        if rank:
            basis = np.array(combinations).dot(self._gradients).astype(phi.dtype)  # (rank, dim)
            deltas += normal[:, dim : dim + rank].dot(basis)
        values = value(np.concatenate([phi + deltas, phi - deltas]))
        return ((values[:pairs] - values[pairs:]) / (sigma**2 * pairs)).dot(deltas)


def _deviations(dim: int, memory: int, rank: int, sigma: float) -> np.ndarray:
    """Of what becomes a sample of Eq. 3: dim numbers for all directions, then `memory` for the subspace."""
    everywhere, subspace = variances(dim, rank)
    return sigma * np.sqrt(np.repeat([everywhere, subspace], [dim, memory]))


def _finite(gradients: np.ndarray) -> np.ndarray:
    return np.nan_to_num(gradients, nan=0.0, posinf=0.0, neginf=0.0)
