"""Tasks: the problem itself, as functions of a population of phi; who asks and counts is the oracle."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from metricopt.core.errors import MetricError
from metricopt.metrics.asking import Answer
from metricopt.metrics.metric import Metric

if TYPE_CHECKING:
    from metricopt.task.probe import Probe

Loss = Callable[[Any, Any], Tensor]


class Reply(NamedTuple):
    """What a metric said about one member: a cost in [0, 1], NaN where it failed, its value, and why there is none."""

    member: int
    cost: float
    value: float | None = None
    failure: str = ""


class Task(ABC):
    """A loss to follow and a metric to lower, both functions of a population of phi.

    Attributes:
        dim: Size of phi.

    Example:
        >>> class Bowl(Task):
        ...     dim = 2
        ...     def batches(self, population, generator):
        ...         while True:
        ...             yield 0.1 * torch.randn(population, self.dim, generator=generator)
        ...     def loss(self, phi, batch):
        ...         return (phi + batch).square().sum(-1)
        ...     def costs(self, phi):
        ...         return (phi - 0.5).square().sum(-1).clamp(max=1.0)
        >>> Bowl().costs(torch.tensor([[0.5, 0.5], [0.0, 0.0]])).tolist()
        [0.0, 0.5]
    """

    dim: int

    @abstractmethod
    def batches(self, population: int, generator: torch.Generator) -> Iterator[Any]:
        """Endless mini-batches, each holding one batch a member."""

    @abstractmethod
    def loss(self, phi: Tensor, batch: Any) -> Tensor:
        """Each member's loss on its own mini-batch, (population,), differentiable in phi (population, dim)."""

    @abstractmethod
    def costs(self, phi: Tensor) -> Tensor:
        """Each member's metric as a cost in [0, 1], NaN where it failed, (population,); it counts nothing."""

    def predictions(self, phi: Tensor) -> Any:
        """What the metric, and metrics of constraints, are computed on: once for all of them; phi by default."""
        return phi

    def replies(self, predictions: Any, members: Sequence[int]) -> Iterator[Reply]:
        """What the metric says about the listed members, each as soon as it is known."""
        costs = self.costs(predictions).tolist()
        return (Reply(member, costs[member]) for member in members)

    def reply(self, answer: Answer, population: int) -> Reply:  # noqa: ARG002
        """What an answer of the metric, given elsewhere, means as a cost; a failed one is warned of."""
        raise MetricError(f"{type(self).__name__} has no metric that workers could be asked about; leave out workers")

    def predictions_for(self, predictions: Any, metric: Metric) -> Any:  # noqa: ARG002
        """The predictions with what another metric needs of them, should the task's own not have needed it."""
        return predictions

    def anchored(self, cost: float, value: float) -> float:  # noqa: ARG002
        """The cost of a value once the metric is anchored to the first one, should it have no bounds: as it is."""
        return cost

    @property
    def metrics(self) -> list[Metric]:
        """The metrics that are asked for its costs; none unless a task has one."""
        return []

    @property
    def members_at_once(self) -> int:
        """How many members the metric is asked about at the same time, for the sake of memory."""
        return 2**31

    @property
    def asks_cheaply(self) -> bool:
        """Whether any process may ask the metric, and not only the one that keeps the ledger."""
        return True

    @property
    def forks(self) -> bool:
        """Whether processes forked from this one can compute losses too."""
        return True

    def prepare(self) -> None:
        """Compute what all processes that are forked from now on will need; nothing by default."""
        return

    def probe(self) -> "Probe":
        """What a search may look at besides answers."""
        from metricopt.task.probe import Probe

        return Probe(self)

    def values(self, predictions: Any, metric: Metric, members: Sequence[int]) -> Tensor:  # noqa: ARG002
        """Another metric's values of the listed members in natural units, NaN where it failed: (population,)."""
        raise MetricError(
            f"{type(self).__name__} has no predictions that metric {metric.name!r} could be computed on; expected a "
            f"SupervisedTask: leave out constraints"
        )

    def resampled_costs(self, phi: Tensor, resamples: int, metric: Metric | None = None) -> Tensor | None:  # noqa: ARG002
        """Costs of one phi (dim,) on resamples of the metric's rows, the same ones every time; None if it has none."""
        return None

    @property
    def resampled(self) -> bool:
        """Whether its metric is asked on resamples at all."""
        return True

    @property
    def rows(self) -> int:
        """Rows that the metric is computed on."""
        return 1

    def noise_guess(self) -> float:
        """Standard deviation of one answer due to the finite metric data where it is not measured; 0 when exact."""
        return 0.0

    def doubt_guess(self, phi: Tensor, other: Tensor) -> float:  # noqa: ARG002
        """Standard error of the difference of two costs, each phi (dim,), where it is not measured; 0 when exact."""
        return 0.0
