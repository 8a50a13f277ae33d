"""What the estimators of scikit-learn have in common: train a network, ask, decide."""

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
from metricopt.integrations.tabular import Table, split, train
from metricopt.metrics import Metric, as_metric
from metricopt.metrics.scikit_learn import is_scorer, scorer_names

needed("sklearn", extra="sklearn", purpose="MetricOptClassifier")

from sklearn.base import BaseEstimator, clone  # noqa: E402
from sklearn.frozen import FrozenEstimator  # noqa: E402
from sklearn.metrics import get_scorer  # noqa: E402
from sklearn.utils import check_random_state  # noqa: E402
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data  # noqa: E402

_EPOCHS = 60
_ROWS = 4096  # predicted at once


class Estimator(BaseEstimator):
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
