"""What a search may look at besides answers: predictions without truth, loss gradients, places worth a query."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from metricopt.task.base import Task
from metricopt.task.views import RAW, View


class Probe:
    """A window on a task that asks the metric nothing; of a task that shows nothing else, phi itself is seen.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> Probe(QuadraticTask(dim=3)).shown(torch.zeros(2, 3), rows=10).shape
        torch.Size([2, 1, 3])
    """

    def __init__(self, task: Task) -> None:
        self.task = task

    @property
    def dim(self) -> int:
        """Size of phi."""
        return self.task.dim

    @property
    def views(self) -> tuple[View, ...]:
        """Ways in which the metric may look at what it is shown."""
        return (RAW,)

    def shown(self, phi: Tensor, *, rows: int) -> Tensor:  # noqa: ARG002
        """Outputs on at most `rows` rows of the metric's data, (population, n, columns), without asking it.

        All that a metric could know of phi; phi itself by default.
        """
        return phi[:, None, :]

    def rows_shown(self, *, rows: int) -> Tensor:  # noqa: ARG002
        """Numbers of the rows that `shown` shows, (n,); none where it shows phi."""
        return torch.zeros(0, dtype=torch.long)

    @property
    def shares_predictions(self) -> bool:
        """Whether what the metric was given tells what `shown` would show."""
        return False

    def shown_of(self, predictions: Any, *, rows: int) -> Tensor:
        """As `shown`, of a population whose predictions are known, if these are shared."""
        raise NotImplementedError

    def responses(self, outputs: Tensor) -> Tensor:
        """What `shown` gives, scaled so that distances mean how differently two members predict: (population, ...)."""
        return outputs.flatten(1)

    def shown_by_inputs(self, *, rows: int) -> Tensor | None:  # noqa: ARG002
        """What would be shown at phi = 0, (1, n, columns), had the network been fitted to the metric's inputs.

        None unless a task knows how to do that without labels.
        """
        return None

    def directions(self, phi: Tensor) -> Tensor:
        """Loss gradients of groups of examples at one phi (dim,): (groups, dim); none unless a task knows groups."""
        return torch.zeros(0, self.dim, device=phi.device)

    @property
    def shift_coordinates(self) -> Tensor:
        """Coordinates of phi that shift one output each; none unless the adapter has them."""
        return torch.zeros(0, dtype=torch.long)

    def start_batches(self, generator: torch.Generator) -> tuple[int, Iterator[Any]]:
        """How many kinds of mini-batches loss finetuning may follow, and endless batches with one of each kind."""
        return 1, self.task.batches(1, generator)

    def sound_starts(self, paths: Tensor) -> Tensor:
        """Points on paths (points, kinds, dim) of loss finetuning that are worth a query, (at most kinds, dim).

        The ends, unless a task knows better.
        """
        return paths[-1]

    @property
    def plain_starts(self) -> int:
        """How many of the starts, the first ones, come from data the metric is not queried on; all by default."""
        return 2**31
