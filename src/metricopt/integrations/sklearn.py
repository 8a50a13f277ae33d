"""Estimators of scikit-learn: a torch network that is trained, or was, and then finetuned until a metric is better."""

import copy
import warnings
from abc import abstractmethod
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from metricopt.adapters.freezing import placement
from metricopt.api.optimize import optimize
from metricopt.api.result import Result
from metricopt.api.ways import Effort, Tune
from metricopt.core.errors import AdapterError, MergeWarning
from metricopt.core.extras import needed
from metricopt.crossfit import CrossFit
from metricopt.integrations.skorch import is_skorch, module_of
from metricopt.integrations.tabular import (
    Table,
    columns_of,
    default_network,
    split,
    train,
    weighted_cross_entropy,
    weighted_squared_error,
)
from metricopt.metrics import Metric, as_metric
from metricopt.metrics.scikit_learn import is_scorer, scorer_names

needed("sklearn", extra="sklearn", purpose="MetricOptClassifier")

from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone  # noqa: E402
from sklearn.frozen import FrozenEstimator  # noqa: E402
from sklearn.metrics import get_scorer  # noqa: E402
from sklearn.utils import check_random_state  # noqa: E402
from sklearn.utils.multiclass import check_classification_targets  # noqa: E402
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data  # noqa: E402

_EPOCHS = 60
_ROWS = 4096  # predicted at once


class _Estimator(BaseEstimator):
    """What classifier and regressor have in common; parameters are those of `MetricOptClassifier`."""

    def __init__(
        self,
        module: Any = None,
        *,
        metric: Any = None,
        queries: int = 100,
        epochs: int | None = None,
        lr: float = 0.01,
        batch_size: int = 64,
        validation: float = 0.34,
        tune: Tune | None = None,
        effort: Effort | CrossFit = "quick",
        confidence: float = 0.9,
        run_dir: Path | str | None = None,
        resume: bool = False,
        random_state: Any = None,
    ) -> None:
        self.module = module
        self.metric = metric
        self.queries = queries
        self.epochs = epochs
        self.lr = lr
        self.batch_size = batch_size
        self.validation = validation
        self.tune: Tune | None = tune
        self.effort: Effort | CrossFit = effort
        self.confidence = confidence
        self.run_dir = run_dir
        self.resume = resume
        self.random_state = random_state

    module_: nn.Module
    result_: Result | None
    n_features_in_: int

    @abstractmethod
    def _network(self, table: Table, seed: int) -> nn.Module:
        """A network trained on a table, where the user brought none."""

    @abstractmethod
    def _loss(self) -> Any:
        """The loss of rows that do not count alike."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _fitted(self, X: Any, y: np.ndarray, sample_weight: Any) -> Self:  # noqa: N803 - scikit-learn's names
        """Train, ask, decide; `y` holds class numbers or values."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        given = _given(self.module)
        dtype = placement(given)[1] if isinstance(given, nn.Module) else torch.float64
        rows, weights = _dense(X), None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
            rows, y, weights = rows[weights > 0], y[weights > 0], torch.as_tensor(weights[weights > 0], dtype=dtype)
        targets = torch.tensor(y, dtype=torch.int64 if y.dtype.kind in "iu" else dtype)
        table = Table(torch.tensor(rows, dtype=dtype), targets, weights)  # a copy: theirs may be read-only
        parts = split(table, share=self.validation, seed=seed, classes=y.dtype.kind in "iu")
        self.module_ = self._prepared(given, table if parts is None else parts[0], seed)
        self.result_ = None
        if parts is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MergeWarning)  # it predicts here, whatever its class
                self.result_ = self._improved(parts, weights is not None, seed)
                self.module_ = self.result_.merge()
        return self

    def _prepared(self, given: Any, table: Table, seed: int) -> nn.Module:
        """The network that is to be improved, trained unless it came fitted."""
        if given is None:
            return self._network(table, seed)
        if is_skorch(given):
            return module_of(given if given.initialized_ else _skorch_fitted(given, table))
        if isinstance(given, nn.Module):
            net, epochs = copy.deepcopy(given), self.epochs or 0
        elif callable(given):
            made: Any = given(table.inputs.shape[1], self._outputs(table))
            net, epochs = made.to(table.inputs), self._epochs
        else:
            raise AdapterError(
                f"module is {given!r:.80}; expected a torch.nn.Module, a function of the numbers of features and "
                f"outputs that makes one, or a skorch net: pass one, or None for a default network"
            )
        return self._trained(net, table, seed) if epochs else net.eval()

    @property
    def _epochs(self) -> int:
        return _EPOCHS if self.epochs is None else self.epochs

    def _trained(self, net: nn.Module, table: Table, seed: int) -> nn.Module:
        how: Any = {"epochs": self._epochs, "lr": self.lr, "batch_size": self.batch_size, "seed": seed}
        return train(net, table, self._loss(), **how)

    @abstractmethod
    def _outputs(self, table: Table) -> int:
        """How many outputs a network for a table has."""

    @abstractmethod
    def _usual_metric(self) -> str:
        """The metric where none is named."""

    def _improved(self, parts: tuple[Table, Table], weighted: bool, seed: int) -> Result:
        return optimize(
            self.module_,
            metric=metric_of(self._usual_metric() if self.metric is None else self.metric, weighted=weighted),
            loss=self._loss() if weighted else None,
            train=parts[0].parts,
            val=parts[1].parts,
            queries=self.queries,
            seed=seed,
            tune=self.tune,
            effort=self.effort,
            confidence=self.confidence,
            run_dir=self.run_dir,
            resume=self.resume,
            progress=False,
        )

    def _said(self, X: Any) -> Tensor:  # noqa: N803 - scikit-learn's names
        """What the network says about rows, in double precision."""
        check_is_fitted(self)
        X = _dense(validate_data(self, X, accept_sparse="csr", dtype="numeric", reset=False))  # noqa: N806
        rows = torch.tensor(X, dtype=placement(self.module_)[1])
        with torch.no_grad():
            return torch.cat([self.module_(some).double().cpu() for some in rows.split(_ROWS)])


class MetricOptClassifier(ClassifierMixin, _Estimator):
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


class MetricOptRegressor(RegressorMixin, _Estimator):
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


def metric_of(given: Any, *, weighted: bool) -> Metric:
    """A metric that weighs rows where scikit-learn's scorers can; of others rows count alike.

    Example:
        >>> metric_of("f1", weighted=True).groups, metric_of("macro_f1", weighted=True).groups
        (True, False)
    """
    named = isinstance(given, str) and given in scorer_names()
    if not weighted or not (named or is_scorer(given)):
        return as_metric(given)
    return Metric(get_scorer(given) if named else given, groups=True, name=given if named else None)


def _given(module: Any) -> Any:
    """What a user brought, without the wrapper that keeps it fitted."""
    return module.estimator if isinstance(module, FrozenEstimator) else module


def _skorch_fitted(net: Any, table: Table) -> Any:
    fresh: Any = clone(net)
    return fresh.fit(table.inputs.float().numpy(), table.targets.numpy())


def _dense(X: Any) -> np.ndarray:  # noqa: N803 - scikit-learn's names
    return X if isinstance(X, np.ndarray) else X.toarray()
