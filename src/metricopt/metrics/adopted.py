"""Metrics of other libraries in this library's terms: `function(y_true, prediction)`."""

import copy
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from metricopt.core.errors import MetricError
from metricopt.metrics.predictions import labels_of, margin_of, scores_of

On = Literal["labels", "scores", "logits", "embeddings", "outputs", "model"]
Goal = Literal["max", "min"]


@dataclass(frozen=True)
class Adopted:
    """A metric's function with what is known about it; None where the user has to say it."""

    function: Callable[..., Any]
    on: On | None
    goal: Goal | None
    name: str


def adopt(function: Any, *, on: On | None, goal: Goal | None) -> Adopted:
    """What a metric given as a plain callable, a torchmetrics object or a scikit-learn scorer is about.

    Example:
        >>> from sklearn.metrics import get_scorer
        >>> adopted = adopt(get_scorer("accuracy"), on=None, goal=None)
        >>> adopted.on, adopted.goal
        ('logits', 'max')
    """
    if _is_torchmetric(function):
        return _adopt_torchmetric(function, on, goal)
    if _is_scorer(function):
        return _adopt_scorer(function, on, goal)
    if not callable(function):
        raise MetricError(f"a metric is a function of (y_true, prediction), not {function!r}: pass the function itself")
    return Adopted(function, on, goal, _name(function))


def _is_torchmetric(candidate: Any) -> bool:
    # Whoever holds such an object has imported its library; importing it here would cost everybody else seconds.
    module = sys.modules.get("torchmetrics")
    return module is not None and isinstance(candidate, module.Metric)


def _is_scorer(candidate: Any) -> bool:
    module = sys.modules.get("sklearn.metrics")
    return module is not None and isinstance(candidate, type(module.make_scorer(module.accuracy_score)))


def _adopt_torchmetric(metric: Any, on: On | None, goal: Goal | None) -> Adopted:
    # Other families (regression, retrieval, ...) must not get a sigmoid nobody asked for.
    if on is None and type(metric).__module__.startswith("torchmetrics.classification"):
        on = "scores"
    if goal is None and metric.higher_is_better is not None:
        goal = "max" if metric.higher_is_better else "min"
    return Adopted(_TorchMetricFunction(metric), on, goal, type(metric).__name__)


def _adopt_scorer(scorer: Any, on: On | None, goal: Goal | None) -> Adopted:
    if on not in (None, "model", "logits"):
        raise MetricError(
            f"a scikit-learn scorer chooses labels or scores itself, but on={on!r} was given: leave it out"
        )
    if goal == "min":
        raise MetricError("a scikit-learn scorer is better when greater, but goal='min' was given: leave it out")
    return Adopted(_ScorerFunction(scorer), "logits", "max", repr(scorer))


def _name(function: Callable[..., Any]) -> str:
    if isinstance(function, functools.partial):
        settings = ", ".join(f"{key}={value!r}" for key, value in function.keywords.items())
        return f"{_name(function.func)}({settings})"
    return getattr(function, "__name__", type(function).__name__)


class _TorchMetricFunction:
    """A torchmetrics object as a function without memory."""

    def __init__(self, metric: Any) -> None:
        self._metric = copy.deepcopy(metric)  # the user's own object keeps what it has accumulated

    def __call__(self, y_true: np.ndarray, prediction: np.ndarray) -> Tensor:
        self._metric.reset()
        self._metric.update(torch.tensor(prediction), torch.tensor(y_true))
        return self._metric.compute()


@dataclass(frozen=True)
class _ScorerFunction:
    """A scikit-learn scorer as a function of raw outputs: it never looks at X, only at the estimator's answers."""

    scorer: Any

    def __call__(self, y_true: np.ndarray, outputs: np.ndarray) -> float:
        several = y_true.ndim == 2 and y_true.shape[1] > 1
        y_true = y_true if several else y_true.reshape(len(y_true))
        return self.scorer(_AnsweredEstimator(outputs, multilabel=several), outputs, y_true)


class _AnsweredEstimator:
    """What scikit-learn asks of a fitted classifier, answered from outputs already there."""

    _estimator_type = "classifier"  # read by scikit-learn 1.5

    def __init__(self, outputs: np.ndarray, *, multilabel: bool) -> None:
        self._outputs = torch.tensor(outputs).unsqueeze(0)
        self._multilabel = multilabel
        columns = outputs.shape[1] if outputs.ndim == 2 else 1
        self.classes_ = np.tile([0, 1], (columns, 1)) if multilabel else np.arange(max(columns, 2))

    def __sklearn_tags__(self) -> Any:  # read by scikit-learn 1.6 and later
        from sklearn.utils import Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            transformer_tags=None,
            classifier_tags=None,
            regressor_tags=None,
        )

    def predict(self, X: Any) -> np.ndarray:  # noqa: ARG002, N803 - scikit-learn's signature
        return labels_of(self._outputs, multilabel=self._multilabel)[0].numpy()

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: ARG002, N803 - scikit-learn's signature
        scores = scores_of(self._outputs, multilabel=self._multilabel)[0].numpy()
        return np.stack([1 - scores, scores], axis=1) if scores.ndim == 1 else scores

    def decision_function(self, X: Any) -> np.ndarray:  # noqa: ARG002, N803 - scikit-learn's signature
        if len(self.classes_) == 2 and not self._multilabel:
            return margin_of(self._outputs)[0].numpy()
        return self._outputs[0].double().numpy()
