import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from metricopt.core.errors import MetricError
from metricopt.metrics import (
    accuracy,
    balanced_error,
    f_beta,
    g_mean,
    jaccard,
    labels_of,
    macro_f1,
    mcr,
    worst_class_recall,
)


def geometric_mean_of_recalls(y_true, labels):
    recalls = [np.mean(labels[y_true == c] == c) for c in np.unique(y_true)]
    return float(np.prod(recalls) ** (1 / len(recalls)))


def smallest_recall(y_true, labels):
    return min(np.mean(labels[y_true == c] == c) for c in np.unique(y_true))


ANY_CLASSES = {
    "mcr": (mcr(), sk.zero_one_loss),
    "accuracy": (accuracy(), sk.accuracy_score),
    "balanced_error": (balanced_error(), lambda y, p: 1 - sk.balanced_accuracy_score(y, p)),
    "macro_f1": (macro_f1(), lambda y, p: sk.f1_score(y, p, average="macro")),
    "g_mean": (g_mean(), geometric_mean_of_recalls),
    "worst_class_recall": (worst_class_recall(), smallest_recall),
}
TWO_CLASSES = ANY_CLASSES | {
    "f1": (f_beta(), sk.f1_score),
    "f2": (f_beta(beta=2.0), lambda y, p: sk.fbeta_score(y, p, beta=2.0)),
    "f0.5": (f_beta(beta=0.5), lambda y, p: sk.fbeta_score(y, p, beta=0.5)),
    "jaccard": (jaccard(), sk.jaccard_score),
}


def drawn(seed, n, columns, classes):
    """Outputs on a coarse grid, so that there are ties, for four members, and targets that may lack classes."""
    generator = torch.Generator().manual_seed(seed)
    outputs = torch.randint(-3, 4, (4, n, columns) if columns else (4, n), generator=generator).double()
    return outputs, torch.randint(classes, (n,), generator=generator)


def assert_equal_to_reference(metric, reference, outputs, targets):
    labels = labels_of(outputs).numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's notes about absent classes
        expected = [reference(targets.numpy(), member) for member in labels]
    np.testing.assert_allclose(metric.values(outputs, targets), expected, atol=1e-9, rtol=0)
    np.testing.assert_allclose([metric.value(o, targets) for o in outputs], expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", TWO_CLASSES)
@settings(max_examples=24, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), columns=st.sampled_from([0, 1, 2]))
def test_on_two_classes_it_equals_its_reference(name, columns, seed, n):
    assert_equal_to_reference(*TWO_CLASSES[name], *drawn(seed, n, columns, classes=2))


@pytest.mark.parametrize("name", ANY_CLASSES)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 20), columns=st.integers(3, 6))
def test_on_many_classes_some_of_them_absent_it_equals_its_reference(name, seed, n, columns):
    assert_equal_to_reference(*ANY_CLASSES[name], *drawn(seed, n, columns, classes=columns))


@pytest.mark.parametrize("name", TWO_CLASSES)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), targets=st.sampled_from([0, 1]))
def test_with_one_class_in_the_targets_it_equals_its_reference(name, seed, targets):
    outputs, rows = drawn(seed, 6, 0, classes=2)
    assert_equal_to_reference(*TWO_CLASSES[name], outputs, torch.full_like(rows, targets))


def test_one_class_never_recognised_makes_the_geometric_mean_zero():
    outputs = torch.eye(3)[torch.tensor([0, 1, 0])] * 9
    assert g_mean().value(outputs, torch.tensor([0, 1, 2])) == 0.0


def test_an_absent_class_does_not_count_against_recall_but_predicting_it_counts_against_macro_f1():
    outputs = torch.eye(3)[torch.tensor([0, 1, 2, 1])]
    targets = torch.tensor([0, 1, 1, 1])
    assert balanced_error().value(outputs, targets) == pytest.approx(1 - (1 + 2 / 3) / 2)
    assert macro_f1().value(outputs, targets) == pytest.approx((1 + 0.8 + 0) / 3)


@pytest.mark.parametrize("metric", [f_beta(), jaccard()], ids=lambda metric: metric.name)
def test_a_two_class_metric_refuses_a_third_class(metric):
    with pytest.raises(MetricError, match=rf"'{metric.name}'.*class 2 occurs.*macro_f1"):
        metric.value(torch.eye(3), torch.tensor([0, 1, 2]))


def test_targets_that_are_no_class_numbers_are_refused():
    with pytest.raises(MetricError, match="smallest value -1"):
        accuracy().value(torch.ones(2), torch.tensor([-1, 1]))
    with pytest.raises(MetricError, match="do not name one class"):
        accuracy().value(torch.ones(2, 3), torch.ones(2, 3))
