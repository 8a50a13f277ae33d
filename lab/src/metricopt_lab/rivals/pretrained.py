"""The start of all rivals."""

import torch

from metricopt.core.records import Outcome
from metricopt.task.base import Task
from metricopt_lab.rivals.named import baseline


@baseline("pretrained")
def pretrained(task: Task, *, queries: int, seed: int) -> Outcome:  # noqa: ARG001
    """The pre-trained network as it is: phi = 0, no query.

    Example:
        >>> from metricopt_lab.problems import QuadraticTask
        >>> pretrained(QuadraticTask(dim=2), queries=0, seed=0).incumbents
        ((0, tensor([0., 0.])),)
    """
    return Outcome(torch.zeros(task.dim), ((0, torch.zeros(task.dim)),))
