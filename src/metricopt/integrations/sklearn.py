"""Estimators of scikit-learn: a torch network that is trained, or was, and then finetuned until a metric is better."""

from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from metricopt.core.errors import AdapterError
from metricopt.core.extras import needed
from metricopt.integrations.estimator import Estimator
from metricopt.integrations.tabular import (
    Table,
    columns_of,
    default_network,
    weighted_cross_entropy,
    weighted_squared_error,
)

needed("sklearn", extra="sklearn", purpose="MetricOptClassifier")

from sklearn.base import ClassifierMixin, RegressorMixin  # noqa: E402
from sklearn.utils.multiclass import check_classification_targets  # noqa: E402
from sklearn.utils.validation import validate_data  # noqa: E402


class MetricOptClassifier(ClassifierMixin, Estimator):
    """A classifier that is finetuned until a metric of your choice is better, and keeps that only if it surely is.

    A share of the rows is set apart to ask the metric about. With fewer than 20 of them, or where a class would be
    missing, nothing can be decided: the network is trained on all rows and left at that (`result_` is None).

    Args:
        module: A fitted `nn.Module` that gives logits, one column a class in the order of `classes_`; a function
            `module(features, outputs)`, such as a class, that makes one to be trained; a net of skorch, fitted or to be
            fitted (scikit-learn's `clone` forgets a fitted one: wrap it in `FrozenEstimator`); None for a default.
        metric: A scoring name, a scorer, or whatever `optimize` takes; by default "macro_f1".
        queries: How often it may be asked.
        epochs: Passes of training; by default 60, and none for what comes fitted.
        lr: First rate of training, by Adam.
        batch_size: Rows a step.
        validation: Share of the rows that the metric is asked about.
        tune: As of `optimize`.
        effort: As of `optimize`.
        confidence: As of `optimize`.
        run_dir: As of `optimize`.
        resume: As of `optimize`.
        random_state: Everything random depends on it.

    Attributes:
        classes_: The classes, sorted.
        module_: The network that predicts.
        result_: What `optimize` found; None if there were too few rows to ask.
        n_features_in_: Number of features.

    Example:
        >>> draw = np.random.default_rng(0)
        >>> X = draw.normal(size=(400, 4))
        >>> y = np.where(X[:, 0] + 0.3 * draw.normal(size=400) > 1, "rare", "usual")
        >>> model = MetricOptClassifier(metric="f1_macro", queries=10, tune="adapter", random_state=0).fit(X, y)
        >>> model.predict(X[:3]), model.result_.ledger.used
        (array(['usual', 'usual', 'usual'], dtype='<U5'), 10)
    """

    classes_: np.ndarray

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803 - scikit-learn's names
        """Train where that is needed, then finetune.

        Args:
            X: Numbers, (n, features), dense or sparse.
            y: Classes, (n,).
            sample_weight: How much each row counts in the loss and, where it is a scoring name or a scorer, the metric.
        """
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype="numeric")  # noqa: N806
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        return self._fitted(X, codes.astype(np.int64), sample_weight)

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803 - scikit-learn's names
        """The most likely class of each row, (n,)."""
        chosen = self._columns(X).argmax(1).numpy()
        return self.classes_[chosen]

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803 - scikit-learn's names
        """Probabilities, (n, classes)."""
        return self._columns(X).softmax(1).numpy()

    def decision_function(self, X: Any) -> np.ndarray:  # noqa: N803 - scikit-learn's names
        """Logits, (n, classes); of two classes their difference, (n,)."""
        columns = self._columns(X).numpy()
        return columns[:, 1] - columns[:, 0] if columns.shape[1] == 2 else columns

    def _columns(self, X: Any) -> Tensor:  # noqa: N803 - scikit-learn's names
        said = self._said(X)
        columns = columns_of(said, len(self.classes_))
        if columns.shape[1] != len(self.classes_):
            raise AdapterError(
                f"the module gives {columns.shape[1]} columns for {len(self.classes_)} classes; expected one each"
            )
        return columns

    def _network(self, table: Table, seed: int) -> nn.Module:
        return self._trained(default_network(table.inputs, self._outputs(table), seed=seed), table, seed)

    def _outputs(self, table: Table) -> int:  # noqa: ARG002
        return len(self.classes_)

    def _loss(self) -> Any:
        return weighted_cross_entropy

    def _usual_metric(self) -> str:
        return "macro_f1"


class MetricOptRegressor(RegressorMixin, Estimator):
    """A regressor that is finetuned until a metric of your choice is better, and keeps that only if it surely is.

    Args and attributes are those of `MetricOptClassifier`, without `classes_`; a module gives one number a row, and
    the metric is "neg_mean_absolute_error" by default.

    Example:
        >>> draw = np.random.default_rng(0)
        >>> X = draw.normal(size=(300, 3))
        >>> y = X[:, 0] + X[:, 1] ** 2
        >>> model = MetricOptRegressor(metric="r2", queries=10, tune="adapter", random_state=0).fit(X, y)
        >>> model.predict(X[:3]).shape, model.result_.metric.name
        ((3,), 'r2')
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803 - scikit-learn's names
        """Train where that is needed, then finetune.

        Args:
            X: Numbers, (n, features), dense or sparse.
            y: Values, (n,).
            sample_weight: How much each row counts in the loss and, where it is a scoring name or a scorer, the metric.
        """
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype="numeric", y_numeric=True)  # noqa: N806
        return self._fitted(X, np.asarray(y, np.float64), sample_weight)

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803 - scikit-learn's names
        """One value a row, (n,)."""
        values = self._said(X)
        return values.reshape(len(values)).numpy()

    def _network(self, table: Table, seed: int) -> nn.Module:
        """Trained on standardised values, which its last layer then gives back their units."""
        middle, width = table.targets.mean(), table.targets.std(correction=0)
        width = width if width > 0 else torch.ones_like(width)
        units = Table(table.inputs, (table.targets - middle) / width, table.weights)
        net = default_network(table.inputs, 1, seed=seed)
        self._trained(net, units, seed)
        last = net[-1]
        assert isinstance(last, nn.Linear)
        last.weight.data *= width
        last.bias.data.mul_(width).add_(middle)
        return net

    def _outputs(self, table: Table) -> int:  # noqa: ARG002
        return 1

    def _loss(self) -> Any:
        return weighted_squared_error

    def _usual_metric(self) -> str:
        return "neg_mean_absolute_error"
