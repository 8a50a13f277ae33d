"""Scorers of scikit-learn as functions of truth and outputs: they never look at X, only at the estimator's answers."""

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from metricopt.metrics.predictions import labels_of, margin_of, scores_of

_REGRESSION = "sklearn.metrics._regression"
_FROM_MINUS_ONE = ("matthews_corrcoef", "cohen_kappa_score", "adjusted_rand_score", "adjusted_mutual_info_score")
_WITHOUT_BOUNDS = ("d2_brier_score", "d2_log_loss_score", "positive_likelihood_ratio", "mutual_info_score")


def is_scorer(candidate: Any) -> bool:
    """Whether it is what `get_scorer` and `make_scorer` give.

    Example:
        >>> from sklearn.metrics import get_scorer, f1_score
        >>> is_scorer(get_scorer("f1")), is_scorer(f1_score)
        (True, False)
    """
    # Whoever holds such an object has imported its library; importing it here would cost everybody else seconds.
    module = sys.modules.get("sklearn.metrics")
    return module is not None and isinstance(candidate, type(module.make_scorer(module.accuracy_score)))


def scorer_names() -> list[str]:
    """Names that `get_scorer` knows; none without scikit-learn.

    Example:
        >>> "neg_log_loss" in scorer_names()
        True
    """
    try:
        from sklearn.metrics import get_scorer_names
    except ImportError:
        return []
    return list(get_scorer_names())


def is_of_regression(scorer: Any) -> bool:
    """Whether a scorer's function is one of scikit-learn's regression metrics.

    Example:
        >>> from sklearn.metrics import get_scorer
        >>> [is_of_regression(get_scorer(name)) for name in ("r2", "neg_max_error", "f1", "neg_log_loss")]
        [True, True, False, False]
    """
    return _module(_function(scorer)) == _REGRESSION


def scorer_bounds(scorer: Any) -> tuple[float, float] | None:
    """Smallest and largest value of a scorer if it has both, None if not: regression and negated losses.

    Example:
        >>> from sklearn.metrics import get_scorer
        >>> [scorer_bounds(get_scorer(name)) for name in ("f1", "matthews_corrcoef", "neg_log_loss")]
        [(0.0, 1.0), (-1.0, 1.0), None]
    """
    function = _function(scorer)
    name = getattr(function, "__name__", "")
    if is_of_regression(scorer) or vars(scorer).get("_sign") == -1 or name in _WITHOUT_BOUNDS:
        return None
    return (-1.0, 1.0) if name in _FROM_MINUS_ONE else (0.0, 1.0)


@dataclass(frozen=True)
class ScorerFunction:
    """A scorer as a function of raw outputs.

    Attributes:
        scorer: The scorer.
        regression: Whether outputs are predictions as they are. If not, a scorer of somebody's own function is still
            taken to be about regression where the targets cannot be classes.

    Example:
        >>> from sklearn.metrics import get_scorer
        >>> mae = ScorerFunction(get_scorer("neg_mean_absolute_error"), regression=True)
        >>> mae(np.array([1.0, 2.0]), np.array([1.5, 1.5]))
        -0.5
    """

    scorer: Any
    regression: bool

    def __call__(self, y_true: np.ndarray, outputs: np.ndarray, weights: np.ndarray | None = None) -> float:
        """The scorer's answer about outputs (n,), (n, 1) or (n, columns), of rows that may not count alike."""
        weighed: Any = {} if weights is None else {"sample_weight": weights}
        several = y_true.ndim == 2 and y_true.shape[1] > 1
        y_true = y_true if several else y_true.reshape(len(y_true))
        if self.regression or self._is_regression(y_true, outputs):
            fitting = outputs.size == y_true.size
            values = _Regressor(outputs.reshape(y_true.shape) if fitting else outputs)
            return self.scorer(values, outputs, y_true, **weighed)
        return self.scorer(_Classifier(outputs, multilabel=several), outputs, y_true, **weighed)

    def _is_regression(self, y_true: np.ndarray, outputs: np.ndarray) -> bool:
        if _module(_function(self.scorer)).startswith("sklearn.") or y_true.dtype.kind not in "iuf":
            return False
        return bool((y_true != y_true.round()).any()) or (outputs.size == len(y_true) and bool(y_true.max() > 1))


def _function(scorer: Any) -> Callable[..., Any]:
    function = vars(scorer).get("_score_func")
    while isinstance(function, functools.partial):
        function = function.func
    return function  # pyright: ignore[reportReturnType]


def _module(function: Any) -> str:
    return getattr(function, "__module__", None) or ""


class _Answered:
    """What scikit-learn asks of a fitted estimator, answered from outputs already there."""

    _estimator_type = ""  # read by scikit-learn 1.5

    def __sklearn_tags__(self) -> Any:  # read by scikit-learn 1.6 and later
        from sklearn.utils import Tags, TargetTags

        return Tags(
            estimator_type=self._estimator_type,
            target_tags=TargetTags(required=True),
            transformer_tags=None,
            classifier_tags=None,
            regressor_tags=None,
        )


class _Regressor(_Answered):
    _estimator_type = "regressor"

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def predict(self, X: Any) -> np.ndarray:  # noqa: ARG002, N803 - scikit-learn's signature
        return self._values


class _Classifier(_Answered):
    _estimator_type = "classifier"

    def __init__(self, outputs: np.ndarray, *, multilabel: bool) -> None:
        self._outputs = torch.tensor(outputs).unsqueeze(0)
        self._multilabel = multilabel
        columns = outputs.shape[1] if outputs.ndim == 2 else 1
        self.classes_ = np.tile([0, 1], (columns, 1)) if multilabel else np.arange(max(columns, 2))

    def predict(self, X: Any) -> np.ndarray:  # noqa: ARG002, N803 - scikit-learn's signature
        return labels_of(self._outputs, multilabel=self._multilabel)[0].numpy()

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: ARG002, N803 - scikit-learn's signature
        scores = scores_of(self._outputs, multilabel=self._multilabel)[0].numpy()
        return np.stack([1 - scores, scores], axis=1) if scores.ndim == 1 else scores

    def decision_function(self, X: Any) -> np.ndarray:  # noqa: ARG002, N803 - scikit-learn's signature
        if len(self.classes_) == 2 and not self._multilabel:
            return margin_of(self._outputs)[0].numpy()
        return self._outputs[0].double().numpy()
