"""Where loss finetuning of phi ends: the points from which, and between which, the search begins."""

import torch
from torch import Tensor

from metricopt.task.probe import Probe

POINTS = 10
"""Points along each way at which it may be worth stopping."""


def loss_starts(probe: Probe, *, steps: int, lr: float, generator: torch.Generator) -> Tensor:
    """Sound points (at most kinds, dim) of finetuning phi on each kind of mini-batches the task has, all at once.

    It follows the loss only and queries nothing.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task = QuadraticTask(dim=4, noise=0.0)
        >>> ends = loss_starts(task.probe(), steps=200, lr=0.1, generator=torch.Generator().manual_seed(0))
        >>> torch.allclose(ends[0], task.loss_optimum, atol=0.01)
        True
    """
    kinds, batches = probe.start_batches(generator)
    phi = torch.nn.Parameter(torch.zeros(kinds, probe.dim))
    optimizer = torch.optim.Adam([phi], lr=lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    stops = {round(steps * (k + 1) / POINTS) for k in range(POINTS)}
    path = []
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        probe.task.loss(phi, next(batches)).sum().backward()
        optimizer.step()
        schedule.step()
        if step in stops:
            path.append(phi.detach().clone())
    starts = probe.sound_starts(torch.stack(path))
    return starts[torch.isfinite(starts).all(1)]
