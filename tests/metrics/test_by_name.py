"""Metrics of torchmetrics by name, and objects in the style of `evaluate`."""

import numpy as np
import pytest
import torch
import torchmetrics
from sklearn.metrics import f1_score

import metricopt as mo
from metricopt.core.errors import MetricError, UnknownNameError
from metricopt.metrics import as_metric

LOGITS = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 3.0], [1.0, 0.0]])
TRUTH = torch.tensor([0, 1, 0, 1])


class F1:
    """As `evaluate.load("f1")` gives it; the library itself is not among the tests' packages."""

    name = "f1"

    def compute(self, *, predictions=None, references=None, **_):
        return {"f1": f1_score(references, predictions), "rows": len(references)}


def test_a_class_of_torchmetrics_is_found_by_its_name():
    metric = as_metric("torchmetrics:BinaryF1Score")
    expected = torchmetrics.F1Score(task="binary")(LOGITS.argmax(1), TRUTH)
    assert metric.goal == "max" and np.isclose(metric.value(LOGITS, TRUTH), float(expected))


def test_a_misspelt_class_and_one_that_needs_arguments_are_answered_in_one_sentence():
    with pytest.raises(UnknownNameError, match="did you mean 'torchmetrics:BinaryF1Score'"):
        as_metric("torchmetrics:BinaryF1Scor")
    with pytest.raises(MetricError, match="MulticlassF1Score needs arguments"):
        as_metric("torchmetrics:MulticlassF1Score")


def test_an_object_that_computes_from_predictions_and_references_is_a_metric():
    metric = mo.Metric(F1(), on="labels", goal="max", key="f1")
    assert metric.name == "f1" and metric.value(LOGITS, TRUTH) == f1_score([0, 1, 0, 1], [0, 1, 1, 0])
    with pytest.raises(MetricError, match="answered with 'f1', 'rows', but key=None"):
        mo.Metric(F1(), on="labels", goal="max").value(LOGITS, TRUTH)
