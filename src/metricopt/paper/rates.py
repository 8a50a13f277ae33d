"""Rates at which phi really moves: the paper prints none, and where phi stands still no metric can follow it.

A rate is told by how far it leads: as many steps as a path has, each as long as the first one, lead `reach` times as
far as the first phi of a task is from 0, which is start_std * sqrt(dim). No metric is asked for it.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from metricopt.core.seeding import stream
from metricopt.task.base import Task
from metricopt.task.finetuning import OptimizerFactory, finetuning

MEMBERS = 8
"""First steps that a length is the median of."""

_STILL = 1e-12  # shorter steps lead nowhere at any rate


def loss_rate(task: Task, *, steps: int, start_std: float, seed: int) -> float:
    """SGD's rate along the loss, from random phi.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> one, ten = (loss_rate(QuadraticTask(dim=4), steps=steps, start_std=1.0, seed=0) for steps in (10, 100))
        >>> round(one / ten, 4)
        10.0
    """
    generator = stream(seed, "loss rate")
    start = start_std * torch.randn(MEMBERS, task.dim, generator=generator)
    length = first_length(task, start, lambda phi: torch.optim.SGD(phi, lr=1.0), generator=generator)
    return _rate(length, steps=steps, far=start_std * math.sqrt(task.dim))


def guided_rates(
    task: Task, optimizer: OptimizerFactory, *, steps: int, start_std: float, reaches: Sequence[float], seed: int
) -> list[float]:
    """A guided SGD's rates from phi = 0, one for each reach.

    Args:
        task: Whose loss spans the search.
        optimizer: Makes the guided optimizer, over SGD at rate 1.
        steps: Of a path.
        start_std: Of the first phi of a task.
        reaches: How far to go, in units of how far that is from 0.
        seed: Of mini-batches.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> plain = lambda phi: torch.optim.SGD(phi, lr=1.0)
        >>> rates = guided_rates(QuadraticTask(dim=4), plain, steps=50, start_std=1.0, reaches=(1.0, 3.0), seed=0)
        >>> round(rates[1] / rates[0], 4)
        3.0
    """
    start = torch.zeros(MEMBERS, task.dim)
    length = first_length(task, start, optimizer, generator=stream(seed, "guided rates"))
    rate = _rate(length, steps=steps, far=start_std * math.sqrt(task.dim))
    return [reach * rate for reach in reaches]


def first_length(task: Task, start: Tensor, optimizer: OptimizerFactory, *, generator: torch.Generator) -> float:
    """Median length of the first step from each row of `start` (members, dim)."""
    batches = task.batches(len(start), generator)
    (step,) = finetuning(task, start, batches, steps=1, optimizer=optimizer)
    return float((step.phi - start).norm(dim=1).nan_to_num(nan=0.0).median())


def _rate(length: float, *, steps: int, far: float) -> float:
    return far / (steps * length) if math.isfinite(length) and length > _STILL else 1.0
