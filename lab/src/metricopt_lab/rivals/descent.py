"""Finetuning of phi on a loss: the step that several rivals share.

Rate and steps were chosen on labels of the metric's data, by the error on accept rows never used otherwise (means of
seeds 100 and 101). covtype_shift_mcr (start .401): 250 steps at .02, .05, .2, .5 gave .375, .357, .336, .325; 1,000
steps .348, .330, .321, .311, and .316 at 1.0; 500 steps at .5 .309; 2,000 steps at .5 .305. a9a_plain_f1 (start .334)
lay between .316 and .327 throughout. On the training loss no setting moved covtype_shift_mcr away from .404 - .406.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, final

import torch
from torch import Tensor

from metricopt.core.errors import DataError
from metricopt.core.seeding import stream
from metricopt.data.dataset import Examples
from metricopt.data.sampling import batch_stream
from metricopt.task.base import Task
from metricopt.task.finetuning import finetuning
from metricopt.task.supervised import SupervisedTask

LR, STEPS = 0.5, 500


@final
class FiniteAdam(torch.optim.Adam):
    """Adam that takes no step along a gradient which is not finite: one such step would be the end of phi.

    Example:
        >>> phi = torch.nn.Parameter(torch.ones(2))
        >>> phi.grad = torch.tensor([1.0, torch.nan])
        >>> FiniteAdam([phi], lr=0.1).step()
        >>> phi.tolist()
        [1.0, 1.0]
    """

    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One step, or none."""
        gradients = [phi.grad for group in self.param_groups for phi in group["params"] if phi.grad is not None]
        if all(bool(gradient.isfinite().all()) for gradient in gradients):
            return super().step(closure)
        return None


def loss_path(task: Task, batches: Iterator[Any], *, steps: int = STEPS, lr: float = LR) -> Tensor:
    """Vectors along Adam's way from 0 with a cosine decay of the learning rate, (steps + 1, dim).

    Where the loss is no number the path stands still.

    Args:
        task: Whose loss is followed.
        batches: Mini-batches for a population of one.
        steps: Number of steps.
        lr: First learning rate.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task = QuadraticTask(dim=2, noise=0.0)
        >>> path = loss_path(task, task.batches(1, stream(0)), steps=200)
        >>> torch.allclose(path[-1], task.loss_optimum, atol=0.01)
        True
    """
    start = torch.zeros(1, task.dim)
    adam = partial(FiniteAdam, lr=lr)
    walked = finetuning(task, start, batches, steps=steps, optimizer=adam, cosine=True)
    return torch.cat([start, *(step.phi.clone() for step in walked)])


def train_batches(task: Task, seed: int) -> Iterator[Any]:
    """Mini-batches of the task's training data."""
    return task.batches(1, stream(seed, "baseline", "train batches"))


def label_batches(task: Task, seed: int) -> Iterator[Any]:
    """Mini-batches of the metric's own data with their targets, drawn as the task draws training data.

    Raises DataError unless the task lets those be seen.
    """
    if not isinstance(task, SupervisedTask) or not task.labels_visible:
        raise DataError(
            f"a rival that learns from the targets of the metric's data was given a {type(task).__name__} which hides "
            f"them; expected a SupervisedTask with labels_visible=True: set it or choose a rival without labels"
        )
    assert isinstance(task.search, Examples)
    return batch_stream(
        task.search,
        1,
        batch_size=task.batch_size,
        sampling=task.sampling,
        generator=stream(seed, "baseline", "label batches"),
    )
