"""Values as costs in [0, 1] and back."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from metricopt.core.errors import MetricError, MetricOptWarning
from metricopt.metrics import Metric, as_metric
from metricopt.metrics.scale import Squashed


def answering(*answers, **stated):
    """A metric that gives these answers one after the other."""
    queue = list(answers)
    stated = {"on": "values", "goal": "min", "name": "error"} | stated
    return Metric(lambda *_: queue.pop(0), **stated)


def asked(metric):
    return metric.value(torch.ones(3), torch.rand(3))


@settings(deadline=None)
@given(
    reference=st.floats(-1e6, 1e6),
    spread=st.floats(1e-3, 1e6),
    steps=st.floats(-50, 50),
    goal=st.sampled_from(["max", "min"]),
)
def test_without_bounds_natural_is_the_inverse_of_cost(reference, spread, steps, goal):
    scale, value = Squashed(goal, reference, spread), reference + steps * spread
    cost = scale.cost(value)
    assert 0 < cost < 1 and (cost - 0.5) * (value - reference) * (1 if goal == "min" else -1) >= 0
    near = 1e-10 * spread + 1e-9 * abs(reference)
    assert scale.natural(cost) == pytest.approx(value, abs=near)
    tensor = torch.tensor([value], dtype=torch.float64)
    assert float(scale.cost(tensor)) == pytest.approx(cost, abs=1e-15)
    assert float(scale.natural(scale.cost(tensor))) == pytest.approx(value, abs=near)


def test_the_order_of_two_models_does_not_depend_on_the_anchor():
    values = torch.tensor([3.0, -2.0, 1e4, 0.5, 2.0], dtype=torch.float64)
    expected = values.argsort().tolist()
    for reference, spread in ((0.0, 1.0), (1e4, 7.0), (-3.0, 1e-2)):
        assert Squashed("min", reference, spread).cost(values).argsort().tolist() == expected
        assert Squashed("max", reference, spread).cost(values).argsort().tolist() == expected[::-1]


def test_an_anchored_metric_is_a_new_one_and_a_bounded_one_stays_itself():
    metric = answering()
    anchored = metric.anchored(30.0, 10.0)
    assert [anchored.cost(value) for value in (30.0, 20.0, 40.0)] == pytest.approx([0.5, 0.25, 0.75])
    assert metric.cost(0.0) == 0.5 and metric.unbounded
    assert as_metric("f1").anchored(0.7) is not None and not as_metric("f1").unbounded
    accuracy = as_metric("accuracy")
    assert accuracy.anchored(0.7) is accuracy
    assert metric.anchored(0.0).cost(1.0) == pytest.approx(0.75)
    for wrong in ((math.nan, 1.0), (1.0, 0.0), (1.0, math.inf)):
        with pytest.raises(MetricError, match="'error' is anchored"):
            metric.anchored(*wrong)


def test_values_are_unbounded_unless_bounds_are_stated():
    assert answering().bounds == (-math.inf, math.inf)
    assert answering(on="logits").bounds == (0.0, 1.0)
    assert answering(on="logits", bounds=None).unbounded
    assert answering(bounds=(0, 5)).bounds == (0.0, 5.0)
    assert repr(answering()) == "Metric('error', on='values', goal='min')"
    assert repr(answering(on="logits", bounds=None)) == "Metric('error', on='logits', goal='min', bounds=None)"


def test_half_open_bounds_are_bounds_at_one_end():
    metric = answering(4.0, -1.0, bounds=(0, math.inf)).anchored(4.0)
    assert asked(metric) == 4.0 and metric.natural(0.0) == 0.0
    with pytest.raises(MetricError, match=r"gave -1, outside its bounds \(0, inf\)"):
        asked(metric)


@pytest.mark.parametrize("value", [1e6, 1e300])
def test_a_terrible_value_counts_as_bad_and_not_as_failed(value):
    metric = answering(30.0, value).anchored(30.0)
    assert asked(metric) == 30.0 and asked(metric) == value
    assert metric.cost(value) > 0.99


def test_the_first_answer_outside_finite_bounds_is_an_error_and_later_ones_count_as_the_worst_with_one_warning():
    metric = answering(57.0, 4.0, 58.0, 59.0, bounds=(0, 10))
    with pytest.raises(MetricError, match=r"gave 57, outside its bounds \(0, 10\): state its true range"):
        asked(metric)
    assert asked(metric) == 4.0
    with pytest.warns(MetricOptWarning, match=r"gave 58, outside its bounds.*counts as the worst"):
        assert asked(metric) == 58.0
    assert asked(metric) == 59.0 and metric.cost(59.0) == 1.0  # warnings are errors here


def test_a_value_better_than_the_best_is_always_an_error():
    metric = answering(4.0, -3.0, bounds=(0, 10))
    asked(metric)
    with pytest.raises(MetricError, match="gave -3, outside its bounds"):
        asked(metric)


@pytest.mark.parametrize("answer", [math.nan, math.inf, -math.inf, None, "0.5"])
def test_without_bounds_too_what_is_no_finite_number_is_a_failure(answer):
    with pytest.raises(MetricError, match=r"'error' (gave|returned)"):
        asked(answering(answer))


@pytest.mark.parametrize("bounds", [5, ("a", 1), (1, 0), (0, 1, 2), (math.nan, 1), (math.inf, -math.inf)])
def test_bounds_that_are_none_are_one_sentence(bounds):
    with pytest.raises(MetricError, match=r"'error' has bounds=.*None where there is none"):
        answering(bounds=bounds)
