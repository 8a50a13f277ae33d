"""Regression: real-valued predictions are measured as they are."""

import numpy as np
import pytest
import torch
import torchmetrics
from sklearn.linear_model import LinearRegression
from sklearn.metrics import get_scorer, make_scorer, mean_absolute_error, mean_pinball_loss, r2_score
from torch import nn

from metricopt.core.errors import MetricError
from metricopt.metrics import Metric, as_metric

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = (X @ [20.0, -35.0, 5.0] + 150 + 30 * RNG.normal(size=120)).round()  # whole numbers, as in many real data sets


@pytest.fixture(params=[1, 2])
def fitted(request):
    """A scikit-learn regressor with one or two targets and its torch twin."""
    y = Y if request.param == 1 else np.stack([Y, Y**2 / 100], 1)
    estimator = LinearRegression().fit(X, y)
    model = nn.Linear(3, request.param).double()
    weight, bias = np.atleast_2d(estimator.coef_), np.atleast_1d(estimator.intercept_)
    model.load_state_dict({"weight": torch.tensor(weight), "bias": torch.tensor(bias)})
    return estimator, model, y


@pytest.mark.parametrize("name", ["neg_mean_absolute_error", "r2", "neg_root_mean_squared_error", "explained_variance"])
@pytest.mark.parametrize("by_name", [True, False])
def test_a_regression_scorer_gives_a_torch_model_what_it_gives_its_scikit_learn_twin(fitted, name, by_name):
    estimator, model, y = fitted
    metric = as_metric(name) if by_name else Metric(get_scorer(name))
    assert (metric.on, metric.goal, metric.unbounded) == ("values", "max", True)
    found = metric.value_of_model(model, torch.tensor(X), torch.tensor(y))
    assert found == pytest.approx(get_scorer(name)(estimator, X, y), rel=1e-9)


def mean_error(y_true, y_pred):
    return float(np.abs(y_true - y_pred).mean())


@pytest.mark.parametrize("targets", [Y, Y + 0.25])
def test_a_scorer_of_ones_own_function_is_one_of_regression_where_targets_cannot_be_classes(targets):
    outputs = torch.tensor(targets)[:, None] + 2.0
    metric = Metric(make_scorer(mean_error, greater_is_better=False))
    assert metric.value(outputs, torch.tensor(targets)) == pytest.approx(-2.0)
    stated = Metric(make_scorer(mean_error, greater_is_better=False), on="values")
    assert stated.value(outputs, torch.tensor(targets)) == pytest.approx(-2.0)


def test_a_scorer_with_settings_is_recognised_too():
    scorer = make_scorer(mean_pinball_loss, alpha=0.9, greater_is_better=False)
    metric, outputs = Metric(scorer), torch.tensor(Y) - 1.0
    assert metric.on == "values" and metric.value(outputs, torch.tensor(Y)) == pytest.approx(-0.9)


@pytest.mark.parametrize(
    ("outputs", "targets", "shape"),
    [
        ((5, 1), (5,), (5,)),
        ((5,), (5,), (5,)),
        ((5,), (5, 1), (5, 1)),
        ((5, 2), (5, 2), (5, 2)),
        ((5, 3), (5,), (5, 3)),
    ],
)
def test_values_come_in_the_shape_of_the_targets_where_only_axes_of_one_differ(outputs, targets, shape):
    seen = []
    metric = Metric(lambda y, p: seen.append((y.shape, p.shape)) or 0.0, on="values", goal="min")
    metric.value(torch.ones(outputs), torch.rand(targets))
    metric.values(torch.ones(2, *outputs), torch.rand(targets))
    assert seen == [(targets, shape)] * 3


def test_values_are_neither_squashed_nor_rounded():
    outputs = torch.tensor([-3.5, 1e6, 0.25])
    metric = Metric(lambda y, p: float(p.sum() - y.sum()), on="values", goal="min")
    assert metric.value(outputs, torch.tensor([0.5, 0.0, 0.0])) == pytest.approx(float(outputs.sum()) - 0.5)


def test_minus_infinity_is_a_diverged_value_and_no_class_ruled_out():
    metric = Metric(mean_absolute_error, on="values", goal="min")
    with pytest.raises(MetricError, match="diverged"):
        metric.value(torch.tensor([1.0, -torch.inf]), torch.tensor([1.0, 2.0]))


@pytest.mark.parametrize("on", ["labels", "scores"])
def test_classes_of_real_valued_targets_are_refused_and_values_recommended(on):
    metric = Metric(r2_score, on=on, goal="max")
    with pytest.raises(MetricError, match=rf"real numbers such as 0.25, but on='{on}'.*on='values'"):
        metric.value(torch.zeros(3), torch.tensor([0.25, 1.0, 3.0]))
    with pytest.raises(MetricError, match=r"go up to 187, but one output column.*on='values'"):
        metric.value(torch.zeros(3, 1), torch.tensor([25.0, 187.0, 30.0]))


def test_numbers_of_rows_are_no_targets_and_may_be_any():
    metric = Metric(lambda *_: 0.5, on="labels", goal="max", hidden=True)
    assert metric.value(torch.zeros(3), torch.tensor([0, 17, 400])) == 0.5


def test_a_torchmetrics_object_of_regression_is_measured_on_values():
    metric = Metric(torchmetrics.MeanAbsoluteError(), on="values")
    assert metric.goal == "min" and metric.unbounded
    assert metric.value(torch.tensor([[1.0], [5.0]]), torch.tensor([0.5, 2.5])) == pytest.approx(1.5)
