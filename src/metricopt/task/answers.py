"""Asking metrics about a population of phi: on their outputs, or on the model set to each of them."""

import math
import warnings
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from metricopt.adapters import AdaptedModel
from metricopt.adapters.device import examples_on_model
from metricopt.core.errors import MetricError, MetricFailureWarning
from metricopt.data.dataset import Examples
from metricopt.metrics import Metric
from metricopt.metrics.metric import Answer


def answers(
    metric: Metric,
    outputs: Tensor | None,
    examples: Examples,
    *,
    model: AdaptedModel,
    phi: Tensor,
    members: Sequence[int],
) -> Iterator[Answer]:
    """Answers about the listed members of phi (population, dim), from their outputs on the examples where these do."""
    if metric.on == "model":
        return _of_models(metric, examples, model, phi, members)
    if outputs is None:
        raise MetricError(f"metric {metric.name!r} is computed on outputs, but got none: pass outputs")
    return metric.answers(outputs, examples.targets, examples.groups, members=members)


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


def resampled_costs(metric: Metric, outputs: Tensor, examples: Examples, *, resamples: int, at_once: int) -> Tensor:
    """Costs of one member's outputs (n, ...) on resamples of the rows, the same rows every time, (resamples,).

    Example:
        >>> from metricopt.metrics import mcr
        >>> data = Examples(torch.zeros(50, 1), torch.arange(50) % 2)
        >>> costs = resampled_costs(mcr(), torch.ones(50), data, resamples=400, at_once=100)
        >>> round(float(costs.mean()), 2), round(float(costs.std()), 2)  # of a share of 0.5 of 50 rows: 0.07
        (0.5, 0.07)
    """
    generator, rows, values = torch.Generator().manual_seed(0), len(examples), []
    for start in range(0, resamples, at_once):
        some = min(at_once, resamples - start)
        index = torch.randint(rows, (some, rows), generator=generator)
        groups = None if examples.groups is None else examples.groups[index]
        values.append(metric.values(outputs[index], examples.targets[index], groups, failures="nan"))
    return metric.cost(torch.cat(values))


def _of_models(
    metric: Metric, examples: Examples, model: AdaptedModel, phi: Tensor, members: Sequence[int]
) -> Iterator[Answer]:
    before, examples = model.phi.detach().clone(), examples_on_model(model, examples)
    for member in members:
        model.phi.data.copy_(phi[member])
        try:
            value = metric.value_of_model(model, examples.inputs, examples.targets, examples.groups)
            answer = Answer(member, value)
        except MetricError as error:
            answer = Answer(member, math.nan, error)
        finally:
            model.phi.data.copy_(before)
        yield answer
