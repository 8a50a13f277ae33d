import pytest
import torch
from sklearn.metrics import f1_score

from metricopt.core.errors import MetricError, UnknownNameError
from metricopt.metrics import METRICS, Metric, as_metric, f_beta, precision_at_recall, precision_at_top, top_k_error


def test_a_metric_stays_itself():
    metric = f_beta()
    assert as_metric(metric) is metric


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("auc_pr", "aucpr"),
        ("f1_score", "f1"),
        ("F1", "f1"),
        ("f1-score", "f1"),
        ("roc_auc_score", "roc_auc"),
        ("average_precision_score", "average_precision"),
        ("mean_absolute_error", "neg_mean_absolute_error"),
        ("log_loss", "neg_log_loss"),
        ("adjusted_rand", "adjusted_rand_score"),
        ("presicion", "precision"),
    ],
)
def test_a_mistyped_name_gets_a_suggestion(name, meant):
    with pytest.raises(UnknownNameError, match=f"no metric named '{name}'; did you mean '{meant}'"):
        as_metric(name)


def test_a_name_like_no_other_gets_the_list():
    with pytest.raises(UnknownNameError, match=r"known: mcr, .*neg_log_loss"):
        as_metric("quux")


@pytest.mark.parametrize("name", ["average_precision", "neg_log_loss", "f1_macro", "roc_auc_ovr"])
def test_names_of_scorers_are_names_of_metrics(name):
    assert as_metric(name).name == name


@pytest.mark.parametrize("name", ["accuracy", "f1", "jaccard"])
def test_a_metric_of_this_library_comes_before_a_scorer_of_the_same_name(name):
    assert as_metric(name).batched is not None


@pytest.mark.parametrize("thing", [None, 5, ["f1"], {"metric": "f1"}])
def test_what_can_be_no_metric_is_refused_in_one_sentence(thing):
    with pytest.raises(MetricError, match=r"the metric is .*; expected a name such as 'f1', a Metric\("):
        as_metric(thing)


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
