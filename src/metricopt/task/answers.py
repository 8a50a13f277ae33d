"""Asking metrics about a population of phi: on their predictions, or on the model set to each of them."""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from metricopt.adapters import AdaptedModel
from metricopt.adapters.device import on_model
from metricopt.core.errors import MetricError, MetricFailureWarning
from metricopt.core.tree import Tree, rows
from metricopt.data.dataset import Batch, Data, Examples
from metricopt.metrics import Metric
from metricopt.metrics.asking import Answer
from metricopt.metrics.resampling import ByQuery
from metricopt.task.predictions import Predictions


def answers(
    metric: Metric, predictions: Predictions, data: Data, *, model: AdaptedModel, members: Sequence[int]
) -> Iterator[Answer]:
    """Answers about the listed members, from their predictions on the rows of `data` where these do."""
    if metric.on == "model":
        return _of_models(metric, data, model, predictions, members)
    targets, groups = data.truth
    if predictions.rows is not None:
        targets = rows(targets, predictions.rows)
        groups = None if groups is None else groups[predictions.rows]
    return metric.answers(predictions.for_metric(metric), targets, groups, members=members)


def settled(found: Iterator[Answer], population: int) -> Tensor:
    """Values in natural units, NaN of members that failed, with a warning, and of those not asked: (population,).

    Example:
        >>> settled(iter([Answer(1, 0.5)]), 2).tolist()
        [nan, 0.5]
    """
    values = torch.full((population,), math.nan, dtype=torch.float64)
    for answer in found:
        values[answer.member] = answer.value
        warned(answer, population)
    return values


def warned(answer: Answer, population: int) -> str:
    """Why there is no answer, said once as a warning; nothing if there is one."""
    if answer.error is None:
        return ""
    message = f"query of member {answer.member} of {population} failed and counts as unknown: {answer.error}"
    warnings.warn(message, MetricFailureWarning, stacklevel=4)
    return str(answer.error)


def resampled_costs(
    metric: Metric, predicted: Tree, truth: tuple[Tree, Tensor | None], *, rows: int, resamples: int, at_once: int
) -> Tensor:
    """Costs of one member's predictions on resamples of the rows, the same rows every time, (resamples,).

    Example:
        >>> from metricopt.metrics import mcr
        >>> truth = torch.arange(50) % 2, None
        >>> costs = resampled_costs(mcr(), torch.ones(50), truth, rows=50, resamples=400, at_once=100)
        >>> round(float(costs.mean()), 2), round(float(costs.std()), 2)  # of a share of 0.5 of 50 rows: 0.07
        (0.5, 0.07)
    """
    generator = torch.Generator().manual_seed(0)
    units, values_on = metric.resampling.units(truth, rows), evaluator(metric, predicted, truth)
    values = []
    for start in range(0, resamples, at_once):
        some = min(at_once, resamples - start)
        values.append(values_on(torch.randint(units, (some, units), generator=generator)))
    return metric.cost(torch.cat(values))


def evaluator(metric: Metric, predicted: Tree, truth: tuple[Tree, Tensor | None]) -> Callable[[Tensor], Tensor]:
    """From choices of what a metric is resampled by (choices, k) to values of one member's predictions, (choices,).

    Choices are of rows or, for a metric that is resampled by query, of classes: then all of them take one call. What a
    metric does once for all choices (`Metric.on_rows`) is done once.

    Example:
        >>> from metricopt.metrics import mcr
        >>> evaluator(mcr(), torch.ones(3), (torch.tensor([0, 1, 1]), None))(torch.tensor([[0, 0, 0]])).tolist()
        [1.0]
    """
    targets, groups = truth
    if isinstance(metric.resampling, ByQuery):
        if not isinstance(targets, Tensor) or not isinstance(predicted, Tensor):
            raise MetricError(f"metric {metric.name!r} is about queries by class; expected one tensor of class codes")
        return _once(lambda: metric.by_class(predicted, targets, groups).values)
    if metric.on_rows is not None:
        return _once(lambda: metric.by_rows(predicted, targets))
    return partial(values_on_rows, metric, predicted, truth)


def _once(prepare: Callable[[], Callable[[Tensor], Tensor]]) -> Callable[[Tensor], Tensor]:
    """What is prepared when it is first needed, and serves all choices from then on; NaN where that fails."""
    known: list[Callable[[Tensor], Tensor]] = []

    def values_on(choices: Tensor) -> Tensor:
        try:
            if not known:
                known.append(prepare())
        except MetricError as error:
            warnings.warn(str(error), MetricFailureWarning, stacklevel=4)
            return torch.full((len(choices),), math.nan, dtype=torch.float64)
        return known[0](choices)

    return values_on


def values_on_rows(metric: Metric, predicted: Tree, truth: tuple[Tree, Tensor | None], index: Tensor) -> Tensor:
    """Values of one member's predictions on each choice of rows (replicates, n), NaN where it failed, (replicates,).

    Example:
        >>> from metricopt.metrics import mcr
        >>> truth = torch.tensor([0, 1, 1]), None
        >>> values_on_rows(mcr(), torch.ones(3), truth, torch.tensor([[0, 0, 0], [1, 1, 2]])).tolist()
        [1.0, 0.0]
    """
    targets, groups = truth
    if isinstance(predicted, Tensor) and isinstance(targets, Tensor):
        some = None if groups is None else groups[index]
        return metric.values(predicted[index], targets[index], some, failures="nan")
    return torch.tensor([_value_on(metric, predicted, targets, groups, each) for each in index], dtype=torch.float64)


def _value_on(metric: Metric, predicted: Tree, targets: Tree, groups: Tensor | None, index: Tensor) -> float:
    some = None if groups is None else groups[index]
    try:
        return metric.value(rows(predicted, index), rows(targets, index), some)
    except MetricError as error:
        warnings.warn(str(error), MetricFailureWarning, stacklevel=5)
        return math.nan


def whole_batch(data: Data) -> Batch:
    """All of a data set as one batch, for metrics that are handed the model and the inputs."""
    if isinstance(data, Examples):
        return Batch(data.inputs, data.targets, data.groups)
    return data.batch(torch.arange(len(data)), seed=0)


def on_device(model: AdaptedModel, batch: Batch) -> Batch:
    """A batch where the model is."""
    return Batch(*(on_model(model, part) for part in batch))


def _of_models(
    metric: Metric, data: Data, model: AdaptedModel, predictions: Predictions, members: Sequence[int]
) -> Iterator[Answer]:
    before = model.phi.detach().clone()
    some = predictions.rows
    batch = on_device(model, whole_batch(data) if some is None else data.batch(some, seed=0))
    for member in members:
        model.phi.data.copy_(predictions.phi[member])
        try:
            answer = Answer(member, value_of_model(metric, model, batch))
        except MetricError as error:
            answer = Answer(member, math.nan, error)
        finally:
            model.phi.data.copy_(before)
        yield answer


def value_of_model(metric: Metric, model: Any, batch: Batch) -> float:
    """What a metric that is computed on the model itself says of it, at its own phi."""
    return metric.value_of_model(model, batch.inputs, batch.targets, batch.groups)
