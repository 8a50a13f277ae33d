"""The start of all rivals."""

import torch

from metricopt.core.records import Outcome
from metricopt.task.oracle import Oracle
from metricopt_lab.rivals.named import baseline


@baseline("pretrained")
def pretrained(oracle: Oracle, *, queries: int, seed: int) -> Outcome:  # noqa: ARG001
    """The pre-trained network as it is: phi = 0, no query.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> pretrained(QuadraticTask(dim=2), queries=0, seed=0).incumbents
        ((0, tensor([0., 0.])),)
    """
    return Outcome(torch.zeros(oracle.dim), ((0, torch.zeros(oracle.dim)),))
