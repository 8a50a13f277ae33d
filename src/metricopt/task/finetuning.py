"""Loss finetuning of phi: the one loop that takes gradient steps on it, whoever asks for them."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR

OptimizerFactory = Callable[[list[torch.nn.Parameter]], Optimizer]


class HasLoss(Protocol):
    """Whatever has a loss that depends on phi, as every task does."""

    def loss(self, phi: Tensor, batch: Any) -> Tensor:
        """Each member's loss on its own mini-batch, (population,)."""
        ...


@runtime_checkable
class ToldLoss(Protocol):
    """An optimizer that looks at the loss and not at its gradient alone, as learned ones do."""

    def observe(self, *, loss: Tensor) -> None:
        """Hear the loss of each member, (population,), before the step that follows it."""
        ...


class Step(NamedTuple):
    """One step of finetuning.

    Attributes:
        phi: Where it led, (population, dim); the next step writes over it, so clone what is to be kept.
        loss: Of each member before the step, on its own mini-batch, (population,).
    """

    phi: Tensor
    loss: Tensor


def finetuning(
    task: HasLoss,
    start: Tensor,
    batches: Iterator[Any],
    *,
    steps: int,
    optimizer: OptimizerFactory,
    cosine: bool = False,
) -> Iterator[Step]:
    """Steps of an optimizer that is given the loss gradient of mini-batches; no metric is asked.

    The optimizer decides what kind of path it is: a plain one follows the loss, `MetricGuided` a value function too.

    Args:
        task: Whose loss is followed.
        start: First phi of each member, (population, dim); left as it is.
        batches: Mini-batches for so many members.
        steps: How many to take.
        optimizer: Makes the optimizer of phi.
        cosine: Lower the rate to zero on the way, along a cosine.

    Example:
        >>> from functools import partial
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task, draw = QuadraticTask(dim=2, noise=0.0), torch.Generator().manual_seed(0)
        >>> sgd = partial(torch.optim.SGD, lr=0.3)
        >>> *_, last = finetuning(task, torch.zeros(1, 2), task.batches(1, draw), steps=50, optimizer=sgd)
        >>> torch.allclose(last.phi[0], task.loss_optimum, atol=0.01)
        True
    """
    phi = torch.nn.Parameter(start.clone())
    stepper = optimizer([phi])
    schedule = CosineAnnealingLR(stepper, steps) if cosine else None
    for _ in range(steps):
        stepper.zero_grad()
        loss = task.loss(phi, next(batches))
        loss.sum().backward()
        if isinstance(stepper, ToldLoss):
            stepper.observe(loss=loss.detach())
        stepper.step()
        if schedule is not None:
            schedule.step()
        yield Step(phi.detach(), loss.detach())
