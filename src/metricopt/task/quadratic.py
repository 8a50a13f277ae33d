"""A quadratic loss and a metric whose optimum is elsewhere, both in closed form: the whole method in milliseconds."""

import math
from collections.abc import Iterator
from typing import final

import torch
from torch import Tensor

from metricopt.core.seeding import stream
from metricopt.task.base import Task
from metricopt.task.probe import Probe


@final
class QuadraticTask(Task):
    """Loss 1/2 (phi - b)' C (phi - b) with b moved at random in each mini-batch, cost 1 - exp(-|phi - m|^2 / (2 s^2)).

    The loss leads part of the way: its own optimum is nearer to the metric's than the origin is. The last `shifts`
    coordinates stand for those that shift outputs.

    Attributes:
        optimum: Where the cost is 0 (m), (dim,).
        loss_optimum: Where the expected loss is lowest (b), (dim,).
        curvature: Diagonal of C, between 0.5 and 2, (dim,).
        scale: Width of the cost (s).

    Example:
        >>> task = QuadraticTask(dim=4)
        >>> task.costs(torch.stack([task.optimum, torch.zeros(4)])).round(decimals=3).tolist()
        [0.0, 0.393]
    """

    def __init__(
        self,
        dim: int = 8,
        *,
        seed: int = 0,
        noise: float = 0.3,
        scale: float = 1.0,
        shifts: int = 2,
    ) -> None:
        """Place the two optima at random.

        Args:
            dim: Size of phi.
            seed: Of the optima and curvatures.
            noise: Standard deviation of each coordinate of the mini-batch's own optimum.
            scale: Distance, the same as that of the origin, at which the cost is 1 - exp(-1/2).
            shifts: How many of the last coordinates are called shifts.
        """
        generator = stream(seed, "quadratic")
        towards = torch.randn(2, dim, generator=generator)
        self.optimum = scale * towards[0] / towards[0].norm()
        aside = towards[1] / towards[1].norm()
        self.loss_optimum = 0.6 * self.optimum + 0.3 * scale * aside
        self.curvature = 0.5 + 1.5 * torch.rand(dim, generator=generator)
        self.dim, self.scale = dim, scale
        self.shifts = min(shifts, dim)
        self._noise = noise

    def batches(self, population: int, generator: torch.Generator) -> Iterator[Tensor]:
        """Endless displacements of the loss optimum, (population, dim)."""
        while True:
            yield self._noise * torch.randn(population, self.dim, generator=generator)

    def loss(self, phi: Tensor, batch: Tensor) -> Tensor:
        """Each member's loss around its own displaced optimum, (population,)."""
        return 0.5 * (self.curvature * (phi - self.loss_optimum - batch).square()).sum(-1)

    def costs(self, phi: Tensor) -> Tensor:
        """Each member's cost, (population,) float64."""
        distance = (phi.double() - self.optimum.double()).square().sum(-1)
        return -torch.expm1(-distance / (2 * self.scale**2))

    def probe(self) -> Probe:
        """Its gradients by group, and its shifts."""
        return QuadraticProbe(self)


@final
class QuadraticProbe(Probe):
    """What can be seen of a `QuadraticTask` besides phi: loss gradients by group, and which coordinates are shifts.

    Example:
        >>> QuadraticTask(dim=3, shifts=1).probe().shift_coordinates
        tensor([2])
    """

    def __init__(self, task: QuadraticTask) -> None:
        super().__init__(task)
        self._quadratic = task

    def directions(self, phi: Tensor) -> Tensor:
        """Gradients of the loss within four blocks of coordinates, which stand for groups of examples: (4, dim)."""
        gradient = self._quadratic.curvature * (phi - self._quadratic.loss_optimum)
        block = torch.arange(self.dim) * 4 // self.dim
        return torch.stack([gradient * (block == b) for b in range(4)])

    @property
    def shift_coordinates(self) -> Tensor:
        """The last coordinates."""
        return torch.arange(self.dim - self._quadratic.shifts, self.dim)


def distance_at(cost: float, *, scale: float = 1.0) -> float:
    """How far from the optimum a `QuadraticTask` has this cost.

    Example:
        >>> round(distance_at(1 - math.exp(-0.5)), 6)
        1.0
    """
    return scale * math.sqrt(-2 * math.log1p(-cost))
