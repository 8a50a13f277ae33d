"""Separable natural evolution strategies (Wierstra et al. 2014) as one arm: the mean of a distribution goes far."""

import math

import torch
from torch import Tensor

from metricopt.search.archive import Archive


class EvolutionArm:
    """Draws around a mean that moves towards the better half of each generation.

    The value function trusts what it knows, near the best point; a mean of many draws is led astray by none of them,
    and gets to where a long way has to be gone.

    Attributes:
        spent: Never.

    Example:
        >>> from metricopt.task.oracle import Oracle
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> archive = Archive(Oracle(QuadraticTask(dim=3)), 100)
        >>> archive.observe(torch.zeros(1, 3), stage="start")
        >>> arm = EvolutionArm(3, spread=0.6, generator=torch.Generator().manual_seed(0))
        >>> while archive.left:
        ...     arm.pull(archive)
        >>> bool(archive.best_cost < 0.1)
        True
    """

    spent = False

    def __init__(self, dim: int, *, spread: float, generator: torch.Generator) -> None:
        self._size = 4 + math.floor(3 * math.log(dim))
        self._rate = (3 + math.log(dim)) / (5 * math.sqrt(dim))
        self._weights = utilities(self._size)
        self._generator = generator
        self._mean: Tensor | None = None
        self._spread = torch.full((dim,), spread)
        self._asked: tuple[Tensor, Tensor] | None = None  # a generation's noise and points, until it was answered

    def pull(self, archive: Archive) -> None:
        """Ask about one generation and move the mean, once workers have answered if they are asked."""
        if self._asked is not None:
            self._move(archive, *self._asked)
        if self._mean is None:
            self._mean = archive.best.clone()
        noise = torch.randn(self._size, len(self._mean), generator=self._generator)
        self._asked = noise, self._mean + self._spread * noise
        archive.observe(self._asked[1], stage="evolution")
        if not self.blocked(archive):
            self._move(archive, *self._asked)

    def blocked(self, archive: Archive) -> bool:
        """Whether workers are still at its generation."""
        return self._asked is not None and archive.pending() and not bool(_known(archive, self._asked[1]).any(1).all())

    def _move(self, archive: Archive, noise: Tensor, points: Tensor) -> None:
        """Towards the better half; a generation that was cut short by the budget moves nothing."""
        self._asked, known = None, _known(archive, points)
        if self._mean is None or not bool(known.any(1).all()):
            return
        costs = archive.costs[known.int().argmax(1)].nan_to_num(nan=torch.inf)
        ranked = noise[costs.argsort(stable=True)]  # best first
        self._mean = self._mean + self._spread * (self._weights @ ranked)
        self._spread = self._spread * (self._rate / 2 * (self._weights @ (ranked.square() - 1))).exp()

    def level(self, archive: Archive) -> float:
        """The lowest cost."""
        return archive.best_cost


def _known(archive: Archive, points: Tensor) -> Tensor:
    """Which answered point each of the points (n, dim) is, (n, answers)."""
    return (points[:, None] == archive.points).all(-1)


def utilities(size: int) -> Tensor:
    """Weight of each rank, best first, summing to 0: max(0, ln(n/2 + 1) - ln k), normalised, minus 1/n.

    Example:
        >>> [f"{weight:.2f}" for weight in utilities(4)]
        ['0.48', '0.02', '-0.25', '-0.25']
    """
    raw = (math.log(size / 2 + 1) - torch.arange(1, size + 1).log()).clamp(min=0)
    return raw / raw.sum() - 1 / size
