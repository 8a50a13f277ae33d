"""The registry of named metrics, and anything a user may call a metric made into one."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from metricopt.core.errors import MetricError, UnknownNameError
from metricopt.core.registry import Registry
from metricopt.metrics.adopted import Goal, On
from metricopt.metrics.checks import shown
from metricopt.metrics.metric import Metric
from metricopt.metrics.scikit_learn import scorer_names
from metricopt.metrics.torch_metrics import torchmetric

_TORCHMETRICS = "torchmetrics:"

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
    """A `Metric` from a metric, a name, a torchmetrics object or a scikit-learn scorer.

    A name is one of those registered here or, if there is none, one that scikit-learn's `get_scorer` knows, or
    "torchmetrics:" before the name of a class of torchmetrics that needs no argument.

    Example:
        >>> as_metric("f1")
        Metric('f1', on='labels', goal='max')
        >>> as_metric("torchmetrics:BinaryF1Score")
        Metric('BinaryF1Score', on='scores', goal='max')
        >>> as_metric("neg_mean_absolute_error")
        Metric('neg_mean_absolute_error', on='values', goal='max')
        >>> from sklearn.metrics import get_scorer
        >>> as_metric(get_scorer("roc_auc")).goal
        'max'
    """
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str):
        return _named(metric)
    if not callable(metric):
        raise MetricError(
            f"the metric is {shown(metric)}; expected a name such as 'f1', a Metric(function, on=..., goal=...), a "
            f"scikit-learn scorer or a torchmetrics object"
        )
    return Metric(metric)


def _named(name: str) -> Metric:
    if name in METRICS:
        return METRICS[name]()
    if name.startswith(_TORCHMETRICS):
        return Metric(torchmetric(name.removeprefix(_TORCHMETRICS)))
    scorers = scorer_names()
    if name in scorers:
        from sklearn.metrics import get_scorer

        return Metric(get_scorer(name), name=name)
    raise UnknownNameError(f"there is no metric named {name!r}; {_advice(name, [*METRICS, *scorers])}")


def _advice(name: str, known: list[str]) -> str:
    """What else was meant: the same in other letters, scikit-learn's function of a scorer, or something alike."""
    plain = name.lower().replace("-", "_").replace(" ", "_").removesuffix("_score")
    meant = [each for each in (plain, f"{plain}_score", f"neg_{plain}", f"neg_mean_{plain}_error") if each in known]
    near = meant or difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
