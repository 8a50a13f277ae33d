"""What published rivals train with: rows of the training data by number, and outputs that depend on phi."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from metricopt.core.errors import DataError
from metricopt.data.dataset import Examples
from metricopt.data.sampling import Sampling, index_stream
from metricopt.losses.named import two_columns
from metricopt.task.finetuning import Step, finetuning
from metricopt.task.oracle import Oracle
from metricopt.task.supervised import SupervisedTask
from metricopt_lab.rivals.descent import FiniteAdam


class Rows(NamedTuple):
    """A mini-batch for each member of a population.

    Attributes:
        numbers: Of training rows, (population, batch).
        given: Their inputs, or what a cache holds in their place.
        targets: (population, batch).
    """

    numbers: Tensor
    given: Any
    targets: Tensor


OutputLoss = Callable[[Tensor, Rows], Tensor]
"""From outputs (population, batch, ...) and their rows to each member's loss, (population,)."""


@final
class Lesson:
    """The training rows of a task and the network that learns from them.

    Attributes:
        task: The task.
        train: Its training rows.
        search: The rows that its metric is computed on.
        sampling: How training rows are drawn: as the task draws them, unless it is said.

    Example:
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> from metricopt.metrics import mcr
        >>> from metricopt.core.seeding import stream
        >>> data = Examples(torch.randn(40, 3, generator=stream(0)), torch.arange(40) % 2)
        >>> task = SupervisedTask(adapt(torch.nn.Linear(3, 2), OutputAffine()), metric=mcr(), train=data, search=data)
        >>> lesson = Lesson(Oracle(task))
        >>> rows = next(lesson.rows(5, stream(1)))
        >>> lesson.outputs(torch.zeros(5, 4), rows).shape, lesson.classes
        (torch.Size([5, 256, 2]), 2)
    """

    def __init__(self, oracle: Oracle, *, sampling: Sampling | None = None) -> None:
        task = oracle.task
        if not isinstance(task, SupervisedTask) or not isinstance(task.train, Examples) or not task.simple:
            raise DataError(
                f"a published rival was given a {type(task).__name__}; expected a SupervisedTask with rows, labels and "
                f"outputs of one tensor each: use a rival that asks about phi alone"
            )
        assert isinstance(task.search, Examples)
        self.task, self.train, self.search = task, task.train, task.search
        self.sampling: Sampling = task.sampling if sampling is None else sampling

    @cached_property
    def classes(self) -> int:
        """Number of classes; a single logit is about two."""
        first = self.task.search_outputs(torch.zeros(1, self.task.dim), every=len(self.search))[0]
        return two_columns(first).shape[1]

    def rows(self, population: int, generator: torch.Generator) -> Iterator[Rows]:
        """Endless mini-batches of the training rows."""
        task = self.task
        drawn = index_stream(
            self.train, population, batch_size=task.batch_size, sampling=self.sampling, generator=generator
        )
        for index in drawn:
            yield Rows(index, task.cache.gather([(self.train, index)]), self.train.targets[index])

    def outputs(self, phi: Tensor, rows: Rows) -> Tensor:
        """Outputs of each member on its own rows, (population, batch, ...), differentiable in phi."""
        return self.task.cache.outputs(phi, rows.given, paired=True)


@dataclass(frozen=True)
class Pace:
    """How a rival takes its steps.

    Attributes:
        steps: Steps of Adam.
        lr: Its first rate.
        cosine: Whether the rate falls to 0 along a cosine.
    """

    steps: int
    lr: float
    cosine: bool = True


def trained(
    lesson: Lesson, loss: OutputLoss, start: Tensor, *, pace: Pace, generator: torch.Generator
) -> Iterator[Step]:
    """Steps of Adam, begun anew, from each row of `start` (population, dim) along a loss of the outputs."""
    adam = partial(FiniteAdam, lr=pace.lr)
    rows = lesson.rows(len(start), generator)
    yield from finetuning(_Taught(lesson, loss), start, rows, steps=pace.steps, optimizer=adam, cosine=pace.cosine)


@dataclass(frozen=True, eq=False)
class _Taught:
    lesson: Lesson
    by: OutputLoss

    def loss(self, phi: Tensor, batch: Rows) -> Tensor:
        return self.by(self.lesson.outputs(phi, batch), batch)
