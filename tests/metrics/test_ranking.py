import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from metricopt.core.errors import MetricError, UnknownNameError
from metricopt.metrics import (
    aucpr,
    aucpr_macro,
    aucpr_micro,
    auroc,
    precision_at_recall,
    precision_at_top,
    scores_of,
    top_k_error,
)

GRID = 5  # few distinct outputs, so that many examples tie


def drawn(seed, n, columns, classes):
    generator = torch.Generator().manual_seed(seed)
    shape = (4, n, columns) if columns else (4, n)
    return torch.randint(GRID, shape, generator=generator).double(), torch.randint(classes, (n,), generator=generator)


def positive_scores(outputs):
    scores = scores_of(outputs)
    return (scores[..., 1] if scores.ndim == 3 else scores).numpy()


def best_precision(y_true, scores, recall):
    precisions, recalls, _ = sk.precision_recall_curve(y_true, scores)
    return precisions[recalls >= recall].max()


def precision_over_tie_breaks(y_true, scores, fraction):
    count = max(1, int(np.ceil(round(fraction * len(scores), 9))))
    rng = np.random.default_rng(0)
    tops = []
    for _ in range(4000):
        order = rng.permutation(len(scores))
        tops.append(y_true[order[np.argsort(-scores[order], kind="stable")[:count]]].mean())
    return np.mean(tops)


TWO_CLASSES = {
    "aucpr": (aucpr(), sk.average_precision_score),
    "auroc": (auroc(), sk.roc_auc_score),
    "precision_at_recall(0.5)": (precision_at_recall(recall=0.5), lambda y, s: best_precision(y, s, 0.5)),
    "precision_at_recall(0.9)": (precision_at_recall(), lambda y, s: best_precision(y, s, 0.9)),
}


@pytest.mark.parametrize("name", TWO_CLASSES)
@settings(max_examples=24, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 25), columns=st.sampled_from([0, 1, 2]))
def test_with_ties_on_two_classes_it_equals_scikit_learn(name, columns, seed, n):
    metric, reference = TWO_CLASSES[name]
    outputs, targets = drawn(seed, n, columns, classes=2)
    targets[:2] = torch.tensor([0, 1])
    expected = [reference(targets.numpy(), scores) for scores in positive_scores(outputs)]
    np.testing.assert_allclose(metric.values(outputs, targets), expected, atol=1e-9, rtol=0)
    np.testing.assert_allclose([metric.value(o, targets) for o in outputs], expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", TWO_CLASSES)
def test_without_ties_on_many_examples_it_equals_scikit_learn(name):
    metric, reference = TWO_CLASSES[name]
    generator = torch.Generator().manual_seed(0)
    outputs, targets = torch.randn(3, 2000, generator=generator), torch.randint(2, (3, 2000), generator=generator)
    expected = [reference(t.numpy(), o.numpy()) for o, t in zip(outputs, targets, strict=True)]
    np.testing.assert_allclose(metric.values(outputs, targets), expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", ["aucpr", "precision_at_recall(0.9)"])
def test_without_positives_precision_is_zero_as_in_scikit_learn(name):
    metric, reference = TWO_CLASSES[name]
    outputs, targets = torch.tensor([1.0, 2.0, 2.0]), torch.tensor([0, 0, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's note about it
        expected = reference(targets.numpy(), outputs.numpy())
    assert metric.value(outputs, targets) == expected == 0.0


@pytest.mark.parametrize("label", [0, 1])
def test_the_area_under_roc_of_one_class_is_undefined_for_that_member_only(label):
    outputs, targets = torch.tensor([[1.0, 2.0], [1.0, 2.0]]), torch.tensor([[label, label], [0, 1]])
    with pytest.raises(MetricError, match=r"'auroc' gave nan.*every class present"):
        auroc().values(outputs, targets)
    with pytest.warns(UserWarning, match="member 0 of 2"):
        values = auroc().values(outputs, targets, failures="nan")
    np.testing.assert_array_equal(values, [np.nan, 1.0])


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 12), classes=st.integers(3, 5))
def test_one_against_rest_with_ties_equals_scikit_learn_on_the_classes_present(seed, n, classes):
    outputs, targets = drawn(seed, n, classes, classes)
    present = np.unique(targets)
    truth = targets.numpy()[:, None] == np.arange(classes)
    scores = scores_of(outputs).numpy()
    macro = [np.mean([sk.average_precision_score(truth[:, c], s[:, c]) for c in present]) for s in scores]
    micro = [sk.average_precision_score(truth.ravel(), s.ravel()) for s in scores]
    np.testing.assert_allclose(aucpr_macro().values(outputs, targets), macro, atol=1e-9, rtol=0)
    np.testing.assert_allclose(aucpr_micro().values(outputs, targets), micro, atol=1e-9, rtol=0)


@pytest.mark.parametrize(("metric", "average"), [(aucpr_macro(), "macro"), (aucpr_micro(), "micro")])
def test_it_equals_scikit_learns_own_averages_on_classes_and_on_several_labels(metric, average):
    generator = torch.Generator().manual_seed(1)
    outputs, targets = torch.randn(40, 3, generator=generator), torch.randint(3, (40,), generator=generator)
    expected = sk.average_precision_score(targets, outputs.double().softmax(1), average=average)
    assert metric.value(outputs, targets) == pytest.approx(expected, abs=1e-9)
    several = torch.randint(2, (40, 3), generator=generator)
    expected = sk.average_precision_score(several, outputs.double().sigmoid(), average=average)
    assert metric.value(outputs, several) == pytest.approx(expected, abs=1e-9)


def test_a_single_logit_counts_as_two_classes_against_each_other():
    outputs, targets = drawn(3, 30, 0, classes=2)
    two = torch.stack([torch.zeros_like(outputs), outputs], dim=-1)
    for metric in (aucpr_macro(), aucpr_micro()):
        torch.testing.assert_close(metric.values(outputs, targets), metric.values(two, targets), atol=1e-12, rtol=0)


def test_confident_logits_keep_their_order():
    outputs, targets = torch.tensor([50.0, 51.0, 52.0]), torch.tensor([0, 0, 1])
    assert aucpr().value(outputs, targets) == auroc().value(outputs, targets) == 1.0


@pytest.mark.parametrize("fraction", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("columns", [0, 2])
def test_precision_at_the_top_is_the_mean_over_all_ways_of_breaking_ties(fraction, columns):
    outputs, targets = drawn(5, 20, columns, classes=2)
    expected = [precision_over_tie_breaks(targets.numpy(), s, fraction) for s in positive_scores(outputs)]
    values = precision_at_top(fraction=fraction).values(outputs, targets)
    np.testing.assert_allclose(values, expected, atol=0.02)


@pytest.mark.parametrize(("n", "count"), [(1, 1), (10, 1), (11, 2), (30, 3), (70, 7)])
def test_the_top_tenth_is_rounded_up_to_whole_examples(n, count):
    outputs = -torch.arange(n, dtype=torch.float64)
    targets = (torch.arange(n) < 1).long()
    assert precision_at_top().value(outputs, targets) == pytest.approx(1 / count)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 15), k=st.integers(1, 4))
def test_top_k_error_with_ties_equals_scikit_learn(seed, n, k):
    outputs, targets = drawn(seed, n, 5, classes=5)
    expected = [1 - sk.top_k_accuracy_score(targets, o, k=k, labels=np.arange(5)) for o in outputs.numpy()]
    np.testing.assert_allclose(top_k_error(k=k).values(outputs, targets), expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize("outputs", [torch.ones(3, 5), torch.ones(3)])
def test_top_five_of_five_classes_is_refused(outputs):
    with pytest.raises(MetricError, match=r"'top5_error'.*top 5 of"):
        top_k_error().value(outputs, torch.tensor([0, 1, 1]))


@pytest.mark.parametrize("metric", [aucpr(), auroc(), precision_at_recall(), precision_at_top()], ids=repr)
def test_a_two_class_metric_refuses_other_targets_and_columns(metric):
    with pytest.raises(MetricError, match=r"hold \[-1, 1\].*0 and 1"):
        metric.value(torch.ones(2), torch.tensor([-1, 1]))
    with pytest.raises(MetricError, match="3 output columns"):
        metric.value(torch.eye(3), torch.tensor([0, 1, 1]))


@pytest.mark.parametrize("metric", [aucpr_macro(), aucpr_micro(), top_k_error(k=1)], ids=repr)
def test_a_class_without_an_output_column_is_refused(metric):
    with pytest.raises(MetricError, match="from 0 to 3 do not name one of 3 columns"):
        metric.value(torch.eye(3), torch.tensor([0, 1, 3]))


@pytest.mark.parametrize(("metric", "average"), [(aucpr_macro, "macro"), (aucpr_micro, "micro")])
def test_by_logit_examples_are_ranked_by_the_raw_outputs_of_each_class(metric, average):
    outputs, targets = torch.randn(60, 4, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 4
    shifted = outputs + torch.randn(60, 1, generator=torch.Generator().manual_seed(1))  # which no softmax notices
    truth = np.eye(4)[targets.numpy()]
    for each in (outputs, shifted):
        expected = sk.average_precision_score(truth, each.double().numpy(), average=average)
        assert metric(by="logit").value(each, targets) == pytest.approx(expected)
    assert metric().value(outputs, targets) == pytest.approx(metric().value(shifted, targets))
    with pytest.raises(UnknownNameError, match="by is 'rank'; expected 'probability' or 'logit'"):
        metric(by="rank")
