"""Stage 1: finetune a population of random phi and query the metric at a few steps of each path."""

from typing import Literal

import torch
from torch import Tensor

from metricopt.core.errors import ObservationError
from metricopt.core.records import Trajectory, at_steps
from metricopt.task.base import Task
from metricopt.task.finetuning import OptimizerFactory, finetuning
from metricopt.task.oracle import Oracle

Spacing = Literal["even", "random"]


def default_observations(steps: int) -> int:
    """K = 5% of T as in the paper, but at least 5: with 2 or 3 points an interpolation says little.

    Example:
        >>> default_observations(50), default_observations(200)
        (5, 10)
    """
    return max(5, round(0.05 * steps))


def collect(
    oracle: Oracle,
    *,
    steps: int,
    observations: int,
    optimizer: OptimizerFactory,
    start: Tensor,
    generator: torch.Generator,
    spacing: Spacing = "even",
) -> Trajectory:
    """Paths of finetuning runs from each row of `start` (tasks, dim), observed at `observations` steps each.

    The optimizer decides what kind of path it is: a plain one follows the loss, a guided one the value function too;
    `spacing` whether all are observed at the same steps, or each at its own.

    Example:
        >>> from functools import partial
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> from metricopt.data.dataset import Examples
        >>> from metricopt.metrics import mcr
        >>> from metricopt.task.supervised import SupervisedTask
        >>> generator = torch.Generator().manual_seed(0)
        >>> data = Examples(torch.randn(40, 3, generator=generator), torch.arange(40) % 2)
        >>> model = adapt(torch.nn.Linear(3, 2), OutputAffine())
        >>> cross_entropy = torch.nn.functional.cross_entropy
        >>> task = SupervisedTask(model, loss=cross_entropy, metric=mcr(), train=data, search=data)
        >>> oracle = Oracle(task)
        >>> paths = collect(
        ...     oracle, steps=10, observations=3, optimizer=partial(torch.optim.SGD, lr=0.1),
        ...     start=torch.zeros(2, task.dim), generator=generator,
        ... )
        >>> paths.phi.shape, paths.costs.shape, oracle.ledger.used
        (torch.Size([2, 10, 4]), torch.Size([2, 3]), 6)
    """
    checked_observations(steps, observations)
    phi, loss = walk(oracle.task, start, steps, optimizer=optimizer, generator=generator)
    observed = observed_steps(len(phi), steps, observations, draw=generator if spacing == "random" else None)
    costs = oracle.observe(at_steps(phi, observed).flatten(0, 1), stage="trajectories").view(observed.shape)
    return Trajectory(phi, loss, observed, costs, noise_std=oracle.noise_std())


def checked_observations(steps: int, observations: int) -> None:
    """Raise unless a path of so many steps can be observed so often."""
    if not 2 <= observations <= steps:
        raise ObservationError(
            f"{observations} metric observations in {steps} steps; expected between 2 and {steps}: "
            f"change observations or steps"
        )


def walk(
    task: Task, start: Tensor, steps: int, *, optimizer: OptimizerFactory, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Paths (tasks, steps, dim) and losses (tasks, steps) of a population that starts at `start` (tasks, dim)."""
    batches = task.batches(len(start), generator)
    path = [start]
    losses = []
    for step in finetuning(task, start, batches, steps=steps, optimizer=optimizer):
        path.append(step.phi.clone())
        losses.append(step.loss)
    # Where the last step led has no loss of its own.
    return torch.stack(path[:-1], 1), torch.stack(losses, 1)


def observed_steps(tasks: int, steps: int, observations: int, *, draw: torch.Generator | None = None) -> Tensor:
    """Steps in increasing order, the first and the last always among them, (tasks, observations).

    At equal distances, the same for all tasks: it leaves no long gap to interpolate, and one decomposition of a kernel
    then serves every path (`gaussian_process.same_points`).

    Args:
        tasks: Number of paths.
        steps: T.
        observations: K.
        draw: If given, the steps between the first and the last are drawn with it, others for each task.

    Example:
        >>> observed_steps(1, 50, 5).tolist()
        [[0, 12, 24, 37, 49]]
    """
    if draw is None:
        return torch.linspace(0, steps - 1, observations, dtype=torch.float64).round().long().repeat(tasks, 1)
    inner = torch.rand(tasks, steps - 2, generator=draw).argsort(1)[:, : observations - 2] + 1
    ends = torch.tensor([0, steps - 1]).expand(tasks, 2)
    return torch.cat([ends, inner], 1).sort(1).values
