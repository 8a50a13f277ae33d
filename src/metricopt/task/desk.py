"""What a worker needs to answer for the metric: the metrics, the truth and, for some, the model; it keeps no count."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from metricopt.adapters import AdaptedModel
from metricopt.core.errors import MetricError
from metricopt.core.tree import Tree
from metricopt.data.dataset import Data
from metricopt.metrics import Metric
from metricopt.metrics.asking import Answer
from metricopt.metrics.traffic import calls_beyond
from metricopt.task.answers import answers
from metricopt.task.predictions import Predictions


class Question(NamedTuple):
    """What a worker is asked: metrics of the desk, about one member's predictions, or its phi where that does.

    Attributes:
        metrics: Numbers of the metrics.
        predictions: Of a population of one.
        data: Name of the data set that they are about.
    """

    metrics: tuple[int, ...]
    predictions: Predictions
    data: str = "search"


class Said(NamedTuple):
    """What metrics said: values in natural units, NaN where they failed and why, and calls beyond one for each."""

    values: tuple[float, ...]
    failures: tuple[str, ...]
    beyond: int = 0

    def answer(self, place: int, member: int) -> Answer:
        """What the metric at that place said, as if it had been asked here about a member."""
        failure = self.failures[place]
        return Answer(member, self.values[place], MetricError(failure) if failure else None)


@dataclass(frozen=True)
class Truth:
    """The part of a data set that a metric of predictions needs.

    Attributes:
        truth: Targets, and groups or None.
    """

    truth: tuple[Tree, Tensor | None]


@dataclass(frozen=True)
class Desk:
    """Answers questions, in whichever process it is; given to each worker once.

    Attributes:
        metrics: What can be asked about.
        data: Data sets by name, or their truth alone.
        model: The model that metrics of the model itself are handed.

    Example:
        >>> import torch
        >>> from metricopt.metrics import mcr
        >>> desk = Desk((mcr(),), {"search": Truth((torch.tensor([0, 1]), None))})
        >>> desk(Question((0,), Predictions(torch.zeros(1, 3), torch.ones(1, 2))))
        Said(values=(0.5,), failures=('',), beyond=0)
    """

    metrics: tuple[Metric, ...]
    data: Mapping[str, Data | Truth]
    model: AdaptedModel | None = None

    def __call__(self, question: Question) -> Said:
        """What the metrics say."""
        asked = [self.metrics[number] for number in question.metrics]
        before = calls_beyond(asked)
        found = [self._answer(metric, question) for metric in asked]
        failures = tuple("" if answer.error is None else str(answer.error) for answer in found)
        return Said(tuple(answer.value for answer in found), failures, calls_beyond(asked) - before)

    def _answer(self, metric: Metric, question: Question) -> Answer:
        data: Any = self.data[question.data]
        model: Any = self.model
        try:
            (found,) = answers(metric, question.predictions, data, model=model, members=[0])
        except Exception as error:  # a worker that ended here would be asked again and again
            why = error if isinstance(error, MetricError) else MetricError(f"{type(error).__name__}: {error}")
            return Answer(0, math.nan, why)
        return found


def desk_of(metrics: Sequence[Metric], data: Mapping[str, Data], model: AdaptedModel) -> Desk:
    """A desk with as little as the metrics need: without the model and the inputs unless one is computed on those."""
    if any(metric.on == "model" for metric in metrics):
        return Desk(tuple(metrics), dict(data), model)
    return Desk(tuple(metrics), {name: Truth(each.truth) for name, each in data.items()})
