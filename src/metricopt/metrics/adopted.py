"""Metrics of other libraries in this library's terms: `function(y_true, prediction)`."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from metricopt.core.errors import MetricError
from metricopt.metrics.checks import shown
from metricopt.metrics.evaluation import Evaluation, is_evaluation
from metricopt.metrics.scale import Goal
from metricopt.metrics.scikit_learn import ScorerFunction, is_of_regression, is_scorer, scorer_bounds
from metricopt.metrics.torch_metrics import (
    TorchMetricFunction,
    is_classification,
    is_collection,
    is_torchmetric,
    member_of,
    torchmetric_bounds,
)

On = Literal["labels", "scores", "values", "logits", "embeddings", "outputs", "model"]
Bounds = tuple[float, float]

__all__ = ["Adopted", "Bounds", "Goal", "On", "adopt"]


@dataclass(frozen=True)
class Adopted:
    """A metric's function with what is known about it; None where the user has to say it, or there are no bounds."""

    function: Callable[..., Any]
    on: On | None
    goal: Goal | None
    name: str
    bounds: Bounds | None = (0.0, 1.0)


def adopt(function: Any, *, on: On | None, goal: Goal | None, key: str | None = None) -> Adopted:
    """What a metric given as a plain callable, a torchmetrics object or a scikit-learn scorer is about.

    Example:
        >>> from sklearn.metrics import get_scorer
        >>> adopted = adopt(get_scorer("accuracy"), on=None, goal=None)
        >>> adopted.on, adopted.goal
        ('logits', 'max')
        >>> adopt(get_scorer("r2"), on=None, goal=None).on
        'values'
    """
    if is_collection(function):
        return _adopt_torchmetric(member_of(function, key), on, goal)
    if is_torchmetric(function):
        return _adopt_torchmetric(function, on, goal, key)
    if is_scorer(function):
        return _adopt_scorer(function, on, goal)
    if is_evaluation(function):
        return Adopted(Evaluation(function, key), on, goal, str(key or function.name), _usual_bounds(on))
    if not callable(function):
        found = shown(function)
        raise MetricError(f"a metric is a function of (y_true, prediction), not {found}: pass the function itself")
    if isinstance(function, type):
        name = function.__name__
        raise MetricError(f"a metric is a function of (y_true, prediction), not the class {name}: pass {name}(...)")
    name = _name(function)
    return Adopted(_keyed(function, key), on, goal, name if key is None else f"{name}[{key!r}]", _usual_bounds(on))


def _usual_bounds(on: On | None) -> Bounds | None:
    return None if on == "values" else (0.0, 1.0)


def _adopt_torchmetric(metric: Any, on: On | None, goal: Goal | None, key: str | None = None) -> Adopted:
    of_classes = is_classification(metric)
    if on is None and of_classes:
        on = "scores"
    if goal is None and metric.higher_is_better is not None:
        goal = "max" if metric.higher_is_better else "min"
    bounds = torchmetric_bounds(metric) if of_classes else _usual_bounds(on)
    return Adopted(_keyed(TorchMetricFunction(metric, on=on), key), on, goal, type(metric).__name__, bounds)


def _adopt_scorer(scorer: Any, on: On | None, goal: Goal | None) -> Adopted:
    if on not in (None, "model", "logits", "values"):
        raise MetricError(
            f"a scikit-learn scorer chooses labels or scores itself, but on={on!r} was given: leave it out"
        )
    if goal == "min":
        raise MetricError("a scikit-learn scorer is better when greater, but goal='min' was given: leave it out")
    regression = on == "values" or is_of_regression(scorer)
    bounds = None if regression else scorer_bounds(scorer)
    function = ScorerFunction(scorer, regression=regression)
    return Adopted(function, "values" if regression else "logits", "max", repr(scorer), bounds)


def _keyed(function: Callable[..., Any], key: str | None) -> Callable[..., Any]:
    return function if key is None else Entry(function, key)


@dataclass(frozen=True)
class Entry:
    """One entry of what a function answers with a mapping.

    Example:
        >>> Entry(lambda y, p: {"f1": 0.5, "recall": 0.75}, "f1")(None, None)
        0.5
    """

    function: Callable[..., Any]
    key: str

    def __call__(self, *arguments: Any) -> Any:
        """The entry for these arguments."""
        answer = self.function(*arguments)
        if not isinstance(answer, Mapping) or self.key not in answer:
            held = f"entries {', '.join(map(repr, answer))}" if isinstance(answer, Mapping) else shown(answer)
            raise MetricError(f"it answered with {held}, but key={self.key!r} was given: name an entry that is there")
        return answer[self.key]


def _name(function: Callable[..., Any]) -> str:
    if isinstance(function, functools.partial):
        settings = ", ".join(f"{key}={value!r}" for key, value in function.keywords.items())
        return f"{_name(function.func)}({settings})"
    return getattr(function, "__name__", type(function).__name__)
