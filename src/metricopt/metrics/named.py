"""The registry of named metrics, and anything a user may call a metric made into one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from metricopt.core.registry import Registry
from metricopt.metrics.adopted import Goal, On
from metricopt.metrics.metric import Metric

METRICS: Registry[Callable[..., Metric]] = Registry("metric")
"""Factories of metrics by name; every parameter of theirs has a default: `METRICS["f1"]()`."""


@dataclass(frozen=True)
class OneMember:
    """The NumPy form of a batched metric: a population of one.

    Example:
        >>> share = OneMember(lambda targets, labels: (targets == labels).double().mean(1))
        >>> share(np.array([0, 1]), np.array([1, 1]))
        0.5
    """

    batched: Callable[..., Tensor]

    def __call__(self, *arrays: np.ndarray) -> float:
        """Value for `(y_true, prediction)` and, if the metric takes them, groups."""
        return float(self.batched(*(torch.tensor(array).unsqueeze(0) for array in arrays))[0])


def population_metric(batched: Callable[..., Tensor], *, name: str, on: On, goal: Goal, groups: bool = False) -> Metric:
    """Metric whose one implementation is its batched form, with values in [0, 1].

    Example:
        >>> share = lambda targets, labels: (targets == labels).double().mean(1)
        >>> population_metric(share, name="share", on="labels", goal="max")
        Metric('share', on='labels', goal='max')
    """
    return Metric(OneMember(batched), on=on, goal=goal, name=name, batched=batched, groups=groups)


def as_metric(metric: Any) -> Metric:
    """A `Metric` from a metric, a registered name, a torchmetrics object or a scikit-learn scorer.

    Example:
        >>> as_metric("f1")
        Metric('f1', on='labels', goal='max')
        >>> from sklearn.metrics import get_scorer
        >>> as_metric(get_scorer("roc_auc")).goal
        'max'
    """
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str):
        return METRICS[metric]()
    return Metric(metric)
