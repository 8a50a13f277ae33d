"""Where loss finetuning of phi ends: the points from which, and between which, the search begins."""

from functools import partial

import torch
from torch import Tensor

from metricopt.task.finetuning import finetuning
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
    start = torch.zeros(kinds, probe.dim)
    adam = partial(torch.optim.Adam, lr=lr)
    stops = {round(steps * (k + 1) / POINTS) for k in range(POINTS)}
    path = []
    for number, step in enumerate(
        finetuning(probe.task, start, batches, steps=steps, optimizer=adam, cosine=True), start=1
    ):
        if number in stops:
            path.append(step.phi.clone())
    starts = probe.sound_starts(torch.stack(path))
    return starts[torch.isfinite(starts).all(1)]
