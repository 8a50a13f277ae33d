"""Finetuning by a learned optimizer from phi = 0, told the metric every so many steps."""

from collections.abc import Callable

import torch
from torch import Tensor

from metricopt.core.seeding import stream
from metricopt.paper.learned.optimizer import LearnedOptimizer
from metricopt.paper.learned.weights import LearnedWeights
from metricopt.paper.value_function import ValueFunction
from metricopt.task.base import Task
from metricopt.task.finetuning import finetuning

Metric = Callable[[Tensor], Tensor]
"""From phi (1, dim) to its cost, (1,): a query, or a value function's estimate."""


def learned_path(
    task: Task,
    learned: LearnedWeights,
    *,
    lr: float,
    steps: int,
    seed: int,
    metric: Metric | None = None,
    every: int = 10,
    value: ValueFunction | None = None,
) -> Tensor:
    """Vectors from phi = 0 on, (steps + 1, dim).

    Args:
        task: Whose loss is followed.
        learned: The rule with its weights.
        lr: Size of its steps.
        steps: How many.
        seed: Of the mini-batches.
        metric: Asked at phi = 0 and then every so many steps; None for a rule that goes by the loss alone.
        every: So many.
        value: For a rule that looks at the gradient of one.

    Example:
        >>> from metricopt.paper.learned.equation_s1_rule import MlpRule
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task, rule = QuadraticTask(dim=2), MlpRule()
        >>> weights = LearnedWeights(rule, rule.initial(stream(0)))
        >>> learned_path(task, weights, lr=0.1, steps=5, seed=0, metric=task.costs).shape
        torch.Size([6, 2])
    """
    start = torch.zeros(1, task.dim)
    made: list[LearnedOptimizer] = []

    def optimizer(parameters: list[torch.nn.Parameter]) -> LearnedOptimizer:
        made.append(LearnedOptimizer(parameters, learned, lr=lr, population=True, value=value))
        if metric is not None:
            made[0].observe(metric=metric(start))
        return made[0]

    path = [start]
    batches = task.batches(1, stream(seed, "finetuning path"))
    for number, step in enumerate(finetuning(task, start, batches, steps=steps, optimizer=optimizer), 1):
        path.append(step.phi.clone())
        if metric is not None and number % every == 0 and number < steps:
            made[0].observe(metric=metric(path[-1]))
    return torch.cat(path)
