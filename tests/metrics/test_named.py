import pytest
import torch
from sklearn.metrics import f1_score

from metricopt.core.errors import MetricError, UnknownNameError
from metricopt.metrics import METRICS, Metric, as_metric, f_beta, precision_at_recall, precision_at_top, top_k_error


def test_a_metric_stays_itself():
    metric = f_beta()
    assert as_metric(metric) is metric


def test_a_mistyped_name_gets_a_suggestion():
    with pytest.raises(UnknownNameError, match="did you mean 'aucpr'"):
        as_metric("auc_pr")


def test_a_plain_function_still_has_to_be_described():
    with pytest.raises(MetricError, match=r"f1_score.*without 'on'"):
        as_metric(f1_score)


def test_two_names_may_mean_the_same_metric():
    assert repr(METRICS["f1"]()) == repr(METRICS["f_beta"]()) == "Metric('f1', on='labels', goal='max')"
    assert METRICS["top5_error"]().name == METRICS["top_k_error"]().name == "top5_error"


@pytest.mark.parametrize(
    ("factory", "value"), [(f_beta, 0.0), (precision_at_recall, 0.0), (precision_at_top, 1.5), (top_k_error, 0)]
)
def test_a_parameter_out_of_range_is_refused_with_its_value(factory, value):
    with pytest.raises(MetricError, match=f"is {value}"):
        factory(value)


def test_the_function_of_a_named_metric_is_usable_on_arrays():
    metric = as_metric("f1")
    assert isinstance(metric, Metric)
    y_true, labels = torch.tensor([1, 0, 1]).numpy(), torch.tensor([1, 1, 0]).numpy()
    assert metric.function(y_true, labels) == f1_score(y_true, labels)
