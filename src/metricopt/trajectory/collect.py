"""Stage 1: finetune a population of random phi and query the metric at a few steps of each path."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.optim import Optimizer

from metricopt.errors import ObservationError
from metricopt.records import Trajectory
from metricopt.task import Task

OptimizerFactory = Callable[[list[torch.nn.Parameter]], Optimizer]


def default_observations(steps: int) -> int:
    """K = 5% of T as in the paper, but at least 5: with 2 or 3 points an interpolation says little.

    Example:
        >>> default_observations(50), default_observations(200)
        (5, 10)
    """
    return max(5, round(0.05 * steps))


def collect(
    task: Task,
    *,
    steps: int,
    observations: int,
    optimizer: OptimizerFactory,
    start: Tensor,
    generator: torch.Generator,
) -> Trajectory:
    """Paths of finetuning runs from each row of `start` (tasks, dim), observed at `observations` steps each.

    The optimizer decides what kind of path it is: a plain one follows the loss, a guided one the value function too.

    Example:
        >>> from functools import partial
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> from metricopt.examples import Examples
        >>> from metricopt.metrics import mcr
        >>> from metricopt.supervised import SupervisedTask
        >>> generator = torch.Generator().manual_seed(0)
        >>> data = Examples(torch.randn(40, 3, generator=generator), torch.arange(40) % 2)
        >>> model = adapt(torch.nn.Linear(3, 2), OutputAffine())
        >>> cross_entropy = torch.nn.functional.cross_entropy
        >>> task = SupervisedTask(model, loss=cross_entropy, metric=mcr(), train=data, search=data)
        >>> paths = collect(
        ...     task, steps=10, observations=3, optimizer=partial(torch.optim.SGD, lr=0.1),
        ...     start=torch.zeros(2, task.dim), generator=generator,
        ... )
        >>> paths.phi.shape, paths.costs.shape, task.ledger.used
        (torch.Size([2, 10, 4]), torch.Size([2, 3]), 6)
    """
    checked_observations(steps, observations)
    phi, loss = walk(task, start, steps, optimizer=optimizer, generator=generator)
    observed = observed_steps(steps, observations)
    costs = task.observe(phi[:, observed].flatten(0, 1)).view(len(phi), observations)
    return Trajectory(phi, loss, observed.repeat(len(phi), 1), costs, noise_std=task.noise_std())


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
    parameter = torch.nn.Parameter(start.clone())
    stepper = optimizer([parameter])
    batches = task.batches(len(start), generator)
    path, losses = [], []
    for _ in range(steps):
        stepper.zero_grad()
        loss = task.loss(parameter, next(batches))
        loss.sum().backward()
        path.append(parameter.detach().clone())
        losses.append(loss.detach())
        stepper.step()
    return torch.stack(path, 1), torch.stack(losses, 1)


def observed_steps(steps: int, observations: int) -> Tensor:
    """K steps from the first to the last at equal distances, (observations,).

    The same for all tasks: it leaves no long gap to interpolate, and one decomposition of a kernel then serves every
    path (`gaussian_process.same_points`). The paper leaves the steps to the user.

    Example:
        >>> observed_steps(50, 5).tolist()
        [0, 12, 24, 37, 49]
    """
    return torch.linspace(0, steps - 1, observations, dtype=torch.float64).round().long()
