"""TuRBO-1 (Eriksson et al. 2019): Thompson samples of a Gaussian process in one trust region, by BoTorch's parts.

Lengths as published: .8 at first, doubled up to 1.6 after successes in a row, halved after failures, anew below
.5 ** 7. Candidates change min(1, 20 / d) of the coordinates of the best point.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from metricopt.core.records import Outcome
from metricopt.task.oracle import Oracle
from metricopt_lab.rivals.libraries.box import Box
from metricopt_lab.rivals.libraries.expected_improvement import FIRST, sobol
from metricopt_lab.rivals.libraries.guest import own_randomness
from metricopt_lab.rivals.libraries.surrogate import Surrogate
from metricopt_lab.rivals.named import baseline

BATCH = 5
"""Queries a fit, as many as the default search of `optimize` takes."""

CANDIDATES = 2000
"""Of which a sample of the process chooses: a joint sample of the published 5,000 takes ten times as long."""

LONGEST, SHORTEST, SUCCESSES = 1.6, 0.5**7, 3


@dataclass
class Region:
    """A cube around the best point; one side is `length` times a length scale's share.

    Example:
        >>> region = Region(dim=10, length=0.8)
        >>> for _ in range(3):
        ...     region.update(better=True)
        >>> region.length
        1.6
    """

    dim: int
    length: float = 0.8
    successes: int = 0
    failures: int = 0

    def update(self, *, better: bool) -> None:
        """Grow after some successes in a row, shrink after a coordinate's worth of failures."""
        self.successes, self.failures = (self.successes + 1, 0) if better else (0, self.failures + 1)
        if self.successes == SUCCESSES:
            self.length, self.successes = min(2 * self.length, LONGEST), 0
        if self.failures >= math.ceil(max(4.0, self.dim) / BATCH):
            self.length, self.failures = self.length / 2, 0
        if self.length < SHORTEST:
            self.length = 0.8


@baseline("turbo", thinks=True)
def turbo(oracle: Oracle, *, queries: int, seed: int) -> Outcome:
    """TuRBO-1: Thompson samples in a trust region that grows and shrinks, in a box around 0.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task = QuadraticTask(dim=4)
        >>> bool(task.costs(turbo(Oracle(task), queries=40, seed=0).phi[None]) < task.costs(torch.zeros(1, 4)))
        True
    """
    with own_randomness(seed, "turbo") as number:
        box, surrogate, region = Box(oracle, queries=queries), Surrogate(_matern), Region(oracle.dim)
        box.ask(sobol(min(FIRST, box.best.left), oracle.dim, number))
        while box.best.left > 0:
            before = box.values.max()
            box.ask(_samples(surrogate.given(box), box, region))
            region.update(better=bool(box.values.max() > before + 1e-3 * before.abs()))
        return box.best.outcome()


def _matern(dim: int) -> Any:
    """Matern 5/2, a length scale a coordinate: TuRBO's kernel and bounds."""
    from gpytorch.constraints import Interval
    from gpytorch.kernels import MaternKernel, ScaleKernel

    return ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=dim, lengthscale_constraint=Interval(0.005, 4.0)))


def _samples(model: Any, box: Box, region: Region) -> Tensor:
    """As many points as a batch takes, each the best of a draw of the process among candidates in the region."""
    from botorch.generation import MaxPosteriorSampling

    scales = model.covar_module.base_kernel.lengthscale.detach().squeeze(0)
    sides = region.length * scales / scales.log().mean().exp()  # of unit volume before the length
    centre = box.points[box.values.argmax()]
    low, high = (centre - sides / 2).clamp(0, 1), (centre + sides / 2).clamp(0, 1)
    moved = torch.rand(CANDIDATES, region.dim) < min(1.0, 20 / region.dim)
    moved[torch.arange(CANDIDATES), torch.randint(region.dim, (CANDIDATES,))] = True  # at least one coordinate
    points = low + (high - low) * sobol(CANDIDATES, region.dim, int(torch.randint(2**31, ())))
    candidates = torch.where(moved, points, centre)
    with torch.no_grad():
        return MaxPosteriorSampling(model, replacement=False)(candidates, num_samples=BATCH)
