"""Equations 3 and 4 for a single phi, a second time: the usual case of finetuning, in as few calls as possible.

To understand them read `equation_3_covariance` and `equation_4_direction`: this says the same, without the axis of
members, and `tests/paper/test_single_phi.py` holds it to the same numbers. It is here for speed alone: a guided step
takes 1.13 plain ones with it and 1.71 without (A9A's MLP, batch 256, the user's own loop; medians over interleaved
rounds of figure (a)'s two adapters, on a shared machine, quartiles 1.08 to 1.19 and 1.63 to 1.85).
Within a step of finetuning the processor's caches are full of the network's own work, and the first call of any
function takes several times as long as when it is repeated: what counts is how many different ones are called.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from metricopt.paper.equation_3_covariance import variances
from metricopt.paper.gram_schmidt import SMALLEST_SINGULAR_VALUE, TINY


class SinglePhi:
    """The past gradients of one phi, and the directions that Eqs. 3 and 4 give with them.

    Args:
        state: From `no_gradients`; its tensors stay up to date.
        pairs: P, antithetic pairs.
        sigma: s, size of the perturbations.
        dtype: Of phi.

    Attributes:
        settings: The last three: with others another one is needed.

    Example:
        >>> from metricopt.paper.past_gradients import no_gradients
        >>> single = SinglePhi(no_gradients(1, 3, 2), pairs=1, sigma=0.1, dtype=torch.float32)
        >>> phi, gradient = np.zeros(2, np.float32), torch.tensor([3.0, 4.0])
        >>> single.direction(lambda points: points[:, 0], phi, gradient, torch.Generator().manual_seed(0)).shape
        (2,)
    """

    def __init__(self, state: dict[str, Any], *, pairs: int, sigma: float, dtype: torch.dtype) -> None:
        self.settings = pairs, sigma, dtype
        self._pairs = pairs
        self._sigma = sigma
        self._state = state
        _, memory, dim = state["past_gradients"].shape
        self._past = state["past_gradients"][0].unbind()
        self._gradients: np.ndarray = state["past_gradients"][0].numpy()  # of the same memory
        self._transposed = self._gradients.T
        self._mean_squares: np.ndarray = state["mean_square"].numpy().reshape(-1)  # of the same memory
        self._mean_square: float = self._mean_squares.item()
        self._scales(memory, dim, sigma)
        self._memories(memory, dim, pairs, dtype)

    def _scales(self, memory: int, dim: int, sigma: float) -> None:
        """Sizes of the noise, and lengths of the basis vectors which make up for them, by rank."""
        everywhere, subspace = variances(dim, torch.arange(memory + 1, dtype=torch.float64))
        self._sizes: list[float] = (sigma * everywhere.sqrt()).tolist()
        self._lengths: list[float] = (subspace.sqrt() / everywhere.sqrt()).tolist()

    def _memories(self, memory: int, dim: int, pairs: int, dtype: torch.dtype) -> None:
        """Arrays that are filled anew at each step: to make one would take longer than to fill it.

        One piece of memory holds the points' distances -delta and delta, then the coordinates within the subspace: all
        but -delta begin as noise.
        """
        numbers = torch.empty(pairs * (2 * dim + memory), dtype=dtype)
        self._noise = numbers[pairs * dim :]
        self._deltas: np.ndarray = numbers[: 2 * pairs * dim].view(2 * pairs, dim).numpy()
        self._minus = self._deltas[:pairs]
        self._plus = self._deltas[pairs:]
        within = numbers[2 * pairs * dim :].view(pairs, memory).numpy()
        self._within = [within[:, :rank] for rank in range(memory + 1)]
        self._sum = torch.empty(dim, dtype=dtype)
        self._sum_numbers: np.ndarray = self._sum.numpy()
        self._address = 0
        self._point = np.empty(0)

    def guided_gradient(
        self,
        value: Callable[[np.ndarray], np.ndarray],
        phi: Tensor,
        gradient: Tensor,
        generator: torch.Generator,
        *,
        weight: float | None,
        normalise: bool,
    ) -> Tensor | None:
        """What `MetricGuided` gives its base in place of the gradient (dim,); None without a finite direction.

        Args:
            value: Of points (n, dim), (n,).
            phi: Of any shape.
            gradient: (dim,).
            generator: Source of the perturbations.
            weight: lambda of Eq. 1; None for the direction in place of the gradient.
            normalise: See `MetricGuided`.
        """
        guided = self.direction(value, self._numbers_of(phi), gradient, generator)
        square = float(guided.dot(guided))
        # Within these bounds no digit is lost to numbers that are too small or too large for the type.
        if not 1e-20 < square < 1e20:
            guided = guided.astype(np.float64)
            square = float(guided.dot(guided))
            if not math.isfinite(square) and not np.isfinite(guided).all():
                return None
        size = 1 / (math.sqrt(max(square, TINY)) if normalise else self._sigma**2 * self._pairs)
        if weight is None:
            guided *= size
            return torch.from_numpy(guided).to(phi.dtype)
        guided *= size * (weight * (math.sqrt(self._mean_square) if normalise else 1.0))
        return self._added(gradient, guided)

    def direction(
        self,
        value: Callable[[np.ndarray], np.ndarray],
        phi: np.ndarray,
        gradient: Tensor,
        generator: torch.Generator,
    ) -> np.ndarray:
        """u of Eq. 4 times s^2 P, (dim,), at phi, (dim,), after the present gradient has been remembered."""
        combinations = combinations_of_one(self._remember(gradient), self._lengths)
        plus = self._plus
        pairs = self._pairs
        rank = len(combinations)
        self._noise.normal_(0.0, self._sizes[rank], generator=generator)
        if rank:
            basis = np.array(combinations).dot(self._gradients).astype(plus.dtype)  # (rank, dim)
            plus += self._within[rank].dot(basis)
        np.negative(plus, out=self._minus)
        values = value(self._deltas + phi)
        return (values[pairs:] - values[:pairs]).dot(plus)

    def _remember(self, gradient: Tensor) -> list[list[float]]:
        """As `past_gradients.remember`; gives the inner products of all gradients."""
        state = self._state
        gradients = self._gradients
        place = state["steps"] % len(gradients)
        self._past[place].copy_(gradient)
        products = gradients.dot(self._transposed).tolist()
        if not math.isfinite(products[place][place]):
            gradients[place] = np.nan_to_num(gradients[place], nan=0.0, posinf=0.0, neginf=0.0)
            products = gradients.dot(self._transposed).tolist()
        state["steps"] += 1
        self._mean_square += (products[place][place] - self._mean_square) / state["steps"]
        self._mean_squares[0] = self._mean_square
        return products

    def _numbers_of(self, phi: Tensor) -> np.ndarray:
        """The numbers of phi in its own memory, (dim,)."""
        address = phi.data_ptr()
        if address != self._address:
            self._address = address
            self._point = phi.detach().numpy().reshape(-1)
        return self._point

    def _added(self, gradient: Tensor, guided: np.ndarray) -> Tensor:
        self._sum.copy_(gradient)
        numbers = self._sum_numbers
        numbers += guided
        return self._sum.clone()  # an optimizer may keep it


def combinations_of_one(rows: list[list[float]], lengths: Sequence[float] | None = None) -> list[list[float]]:
    """As `gram_schmidt.orthonormal_combinations` for one matrix of inner products, which is used up; no zero rows.

    Args:
        rows: The matrix.
        lengths: Of what they combine to, one for each possible rank from 0 on; by default 1.

    Example:
        >>> combinations_of_one([[4.0, 0.0], [0.0, 0.0]]), combinations_of_one([[4.0]], [0.0, 3.0])
        ([[0.5, 0.0]], [[1.5]])
    """
    # By elimination: `rows[i]` become the products of what is left of vector i with all others, `made[i]` the
    # coefficients of which it is made. Plain loops: the calls that comprehensions make would take half of the time.
    size = len(rows)
    waiting = list(range(size))
    picked: list[int] = []
    found: list[list[float]] = []
    squares: list[float] = []
    made: list[list[float]] = []
    for i in waiting:
        length = math.sqrt(max(rows[i][i], TINY))
        squares.append(length * length)  # rounded as where many are done at once: of equal ones the same is picked
        own = [0.0] * size
        own[i] = 1.0
        made.append(own)
    while waiting:
        pick = -1
        farthest = SMALLEST_SINGULAR_VALUE**2
        for i in waiting:
            distance = rows[i][i] / squares[i]  # of the unit vector from the span, squared
            if distance > farthest:
                pick = i
                farthest = distance
        if pick < 0:
            break
        waiting.remove(pick)
        picked.append(pick)
        chosen = rows[pick]
        own = made[pick]
        for i in waiting:
            row = rows[i]
            mine = made[i]
            share = row[pick] / chosen[pick]
            for j in waiting:
                row[j] -= share * chosen[j]
            for j in picked:
                mine[j] -= share * own[j]
        found.append(own)
    length = 1.0 if lengths is None else lengths[len(found)]
    for pick, own in zip(picked, found, strict=True):
        share = length / math.sqrt(rows[pick][pick])
        for j in picked:
            own[j] *= share
    return found
