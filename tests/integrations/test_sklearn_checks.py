"""scikit-learn's own checks of an estimator, all of them; what is exempt is listed here with its reason."""

import pytest
from sklearn.metrics import balanced_accuracy_score, mean_absolute_error
from sklearn.utils.estimator_checks import parametrize_with_checks

import metricopt as mo
from metricopt.crossfit import CrossFit
from metricopt.crossfit.settings import Kind

# Quick ones: a call of the metric counts as dear, so that a decision takes 36 and not a thousand.
METRICS = {
    "classifier": mo.Metric(balanced_accuracy_score, on="labels", goal="max", costly=True),
    "regressor": mo.Metric(mean_absolute_error, on="values", goal="min", costly=True),
}
EFFORT = CrossFit(folds=2, epochs=1, rates=(8e-3,), kinds=(Kind(False, 1.0),), alphas=(1.0,), tuned=1, seconds=1.0)
EXEMPT = {
    "check_sample_weight_equivalence_on_dense_data": "a weight of 2 is not a row twice: rows are split and drawn",
    "check_sample_weight_equivalence_on_sparse_data": "a weight of 2 is not a row twice: rows are split and drawn",
}

CLASSIFIER = mo.MetricOptClassifier(metric=METRICS["classifier"], queries=2, epochs=20, effort=EFFORT, random_state=0)
REGRESSOR = mo.MetricOptRegressor(metric=METRICS["regressor"], queries=2, epochs=20, effort=EFFORT, random_state=0)


@pytest.mark.filterwarnings("ignore::metricopt.core.errors.MetricOptWarning", "ignore:y_pred contains classes")
@parametrize_with_checks([CLASSIFIER, REGRESSOR], expected_failed_checks=lambda _: EXEMPT)
def test_scikit_learns_own_check(estimator, check):
    check(estimator)
