"""What a few answers give away about a metric."""

import math

import pytest
import torch

from metricopt.metrics import Metric
from metricopt.metrics.suspicion import constancy, unsteadiness

DRAW = torch.Generator().manual_seed(0)
OUTPUTS, TARGETS = torch.randn(12, 40, generator=DRAW), torch.arange(40) % 2


@pytest.fixture
def metric():
    return Metric(lambda *_: 0.5, on="labels", goal="max", name="mine")


def test_the_same_answer_to_ten_different_predictions_is_said(metric):
    said = constancy(metric, [0.5] * 12, OUTPUTS, TARGETS)
    assert said.startswith("metric 'mine' gave 0.5 for each of 12 different predictions") and "on='labels'" in said
    assert constancy(metric, [0.5] * 11 + [math.nan], OUTPUTS, TARGETS)
    assert constancy(Metric(lambda *_: 0.5, on="model", goal="max"), [0.5] * 12, OUTPUTS, TARGETS)


def test_different_answers_and_few_predictions_are_not_suspicious(metric):
    assert not constancy(metric, [0.5] * 11 + [0.6], OUTPUTS, TARGETS)
    assert not constancy(metric, [0.5] * 9, OUTPUTS[:9], TARGETS)
    assert not constancy(metric, [math.nan] * 12, OUTPUTS, TARGETS)


def test_predictions_that_the_metric_cannot_tell_apart_are_one(metric):
    scaled = OUTPUTS[:1] * torch.arange(1, 13)[:, None]
    assert not constancy(metric, [0.5] * 12, scaled, TARGETS)
    assert constancy(Metric(lambda *_: 0.5, on="logits", goal="max"), [0.5] * 12, scaled, TARGETS)


def test_a_second_answer_that_differs_by_more_than_rounding_is_said(metric):
    assert "answered 0.5 and then 0.51" in unsteadiness(metric, 0.5, 0.51)
    assert not unsteadiness(metric, 0.5, 0.5 + 1e-15) and not unsteadiness(metric, 0.5, math.nan)
