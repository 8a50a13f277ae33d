"""Objects of torchmetrics as functions without memory."""

import copy
import difflib
import sys
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from metricopt.core.errors import MetricError, UnknownNameError
from metricopt.core.extras import needed

_FROM_MINUS_ONE = ("MatthewsCorrCoef", "CohenKappa")


def is_torchmetric(candidate: Any) -> bool:
    """Whether it is an object of torchmetrics.

    Example:
        >>> import torchmetrics
        >>> is_torchmetric(torchmetrics.SumMetric()), is_torchmetric(max)
        (True, False)
    """
    # Whoever holds such an object has imported its library; importing it here would cost everybody else seconds.
    module = sys.modules.get("torchmetrics")
    return module is not None and isinstance(candidate, module.Metric)


def torchmetric(name: str) -> Any:
    """An object of torchmetrics by the name of its class, which needs no argument.

    Example:
        >>> torchmetric("BinaryF1Score")
        BinaryF1Score()
    """
    module = needed("torchmetrics", extra="dev", purpose=f"metric 'torchmetrics:{name}'")
    places = (module, module.classification, module.regression)
    kind = next((vars(place)[name] for place in places if name in vars(place)), None)
    if not isinstance(kind, type):
        known = [each for place in places for each in vars(place) if each[:1].isupper()]
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5) or ["BinaryF1Score"]
        raise UnknownNameError(f"torchmetrics has no metric named {name!r}; did you mean 'torchmetrics:{near[0]}'?")
    try:
        return kind()
    except (TypeError, ValueError) as error:
        raise MetricError(
            f"torchmetrics' {name} needs arguments ({' '.join(str(error).split())[:120]}); expected the object: pass "
            f"metric=torchmetrics.{name}(...)"
        ) from error


def is_collection(candidate: Any) -> bool:
    """Whether it is a `MetricCollection`.

    Example:
        >>> import torchmetrics
        >>> is_collection(torchmetrics.MetricCollection([torchmetrics.SumMetric()]))
        True
    """
    module = sys.modules.get("torchmetrics")
    return module is not None and isinstance(candidate, module.MetricCollection)


def member_of(collection: Any, key: str | None) -> Any:
    """The object of a collection that has the key; an error that lists the keys if there is none.

    Example:
        >>> import torchmetrics
        >>> member_of(torchmetrics.MetricCollection({"sum": torchmetrics.SumMetric()}), "sum")
        SumMetric()
    """
    keys = [str(each) for each in collection]
    if key not in keys:
        raise MetricError(
            f"a MetricCollection of {', '.join(map(repr, keys))} was given with key={key!r}: choose the one to "
            f"improve, Metric(..., key={keys[0] if keys else 'name'!r}), and keep others in bounds with Constraint"
        )
    return collection[key]


def is_classification(metric: Any) -> bool:
    """Whether it is about classes, and takes probabilities; others must not get a sigmoid nobody asked for.

    Example:
        >>> import torchmetrics
        >>> is_classification(torchmetrics.MeanSquaredError())
        False
    """
    return any(kind.__module__.startswith("torchmetrics.classification") for kind in type(metric).__mro__)


def torchmetric_bounds(metric: Any) -> tuple[float, float] | None:
    """Smallest and largest value of a metric of classes, None if there is none.

    Example:
        >>> import torchmetrics
        >>> torchmetric_bounds(torchmetrics.MatthewsCorrCoef(task="binary"))
        (-1.0, 1.0)
    """
    names = [kind.__name__ for kind in type(metric).__mro__]
    if any(name.endswith("HingeLoss") for name in names):
        return None
    return (-1.0, 1.0) if any(name.endswith(_FROM_MINUS_ONE) for name in names) else (0.0, 1.0)


@final
class TorchMetricFunction:
    """A copy of the object, reset before every call: the user's own keeps what it has accumulated.

    Example:
        >>> import torchmetrics
        >>> mse = TorchMetricFunction(torchmetrics.MeanSquaredError(), on="values")
        >>> float(mse(np.array([0.0, 0.0]), np.array([1.0, 3.0])))
        5.0
    """

    def __init__(self, metric: Any, *, on: str | None) -> None:
        self._metric = copy.deepcopy(metric)
        # Those of two classes want one number an example.
        kinds = [kind for kind in type(metric).__mro__ if kind.__module__.startswith("torchmetrics.classification")]
        self._binary, self._on = any(kind.__name__.startswith("Binary") for kind in kinds), on

    def __call__(self, y_true: np.ndarray, prediction: np.ndarray) -> Tensor:
        """What the object computes for them alone."""
        if self._binary and prediction.ndim == 2 and prediction.shape[1] == 2 and y_true.ndim == 1:
            prediction = prediction[:, 1] if self._on == "scores" else prediction[:, 1] - prediction[:, 0]
        self._metric.reset()
        self._metric.update(torch.tensor(prediction), torch.tensor(y_true))
        return self._metric.compute()
