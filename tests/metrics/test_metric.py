import functools
import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import fbeta_score, mean_squared_error
from torch import nn

from metricopt.core.errors import MetricError, MetricFailureWarning
from metricopt.metrics import Metric


def share_of_ones(y_true, prediction):
    return float(np.mean(prediction))


@pytest.fixture
def metric():
    return Metric(share_of_ones, on="labels", goal="max")


@settings(deadline=None)
@given(low=st.floats(-100, 100), width=st.floats(0.1, 100), share=st.floats(0, 1), goal=st.sampled_from(["max", "min"]))
def test_natural_is_the_inverse_of_cost(low, width, share, goal):
    metric = Metric(share_of_ones, on="labels", goal=goal, bounds=(low, low + width))
    value = min(low + share * width, low + width)
    assert 0 <= metric.cost(value) <= 1
    assert metric.natural(metric.cost(value)) == pytest.approx(value, abs=1e-9)
    tensor = torch.tensor([value], dtype=torch.float64)
    assert float(metric.cost(tensor)) == pytest.approx(metric.cost(value), abs=1e-12)
    assert float(metric.natural(metric.cost(tensor))) == pytest.approx(value, abs=1e-9)


def test_the_best_value_costs_nothing_and_the_worst_costs_one():
    assert [Metric(share_of_ones, on="labels", goal="max", bounds=(-1, 3)).cost(v) for v in (3, -1)] == [0, 1]
    assert [Metric(share_of_ones, on="labels", goal="min", bounds=(-1, 3)).cost(v) for v in (3, -1)] == [1, 0]


def test_better_follows_the_goal_and_nan_is_never_better(metric):
    lower = Metric(share_of_ones, on="labels", goal="min")
    assert metric.better(0.8, 0.7) and not metric.better(0.7, 0.8) and not metric.better(0.7, 0.7)
    assert lower.better(0.7, 0.8) and not lower.better(0.8, 0.7)
    assert not metric.better(math.nan, 0.0) and not lower.better(math.nan, 1.0)


def test_rounding_beyond_the_best_is_cut_off_and_more_is_an_error_while_beyond_the_worst_is_the_worst(metric):
    assert metric.cost(1 + 1e-9) == 0
    assert metric.cost(torch.tensor([-1e-9, 0.5]).double()).tolist() == [1.0, 0.5]
    with pytest.raises(MetricError, match=r"'share_of_ones' gave 1.1, outside its bounds \(0, 1\).*bounds="):
        metric.cost(1.1)
    with pytest.raises(MetricError, match="outside its bounds"):
        metric.cost(torch.tensor([0.5, 1.2]))
    assert metric.cost(-0.2) == 1 and metric.cost(torch.tensor([0.5, -0.2])).tolist() == [0.5, 1.0]


def test_in_a_tensor_of_costs_a_failed_query_stays_unknown_but_a_single_nan_is_an_error(metric):
    assert metric.cost(torch.tensor([0.25, math.nan])).isnan().tolist() == [False, True]
    assert metric.cost(torch.tensor([math.nan])).isnan().all()
    with pytest.raises(MetricError, match="gave nan"):
        metric.cost(math.nan)


@pytest.mark.parametrize("missing", ["on", "goal"])
def test_goal_and_input_are_never_guessed(missing):
    stated = {"on": "labels", "goal": "max"}
    del stated[missing]
    with pytest.raises(MetricError, match=f"without '{missing}'.*on='labels', goal='max'"):
        Metric(share_of_ones, **stated)


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"on": "label", "goal": "max"}, "on='label'.*'labels'"),
        ({"on": "labels", "goal": "up"}, "goal='up'.*'max'"),
        ({"on": "labels", "goal": "max", "bounds": (1.0, 0.0)}, r"bounds=\(1.0, 0.0\)"),
        ({"on": "labels", "goal": "max", "time_limit": "5"}, "time_limit='5'; a positive number"),
        ({"on": "labels", "goal": "max", "parallel": 0}, "parallel=0; a positive number"),
    ],
)
def test_a_wrong_description_is_an_error_that_names_it(stated, message):
    with pytest.raises(MetricError, match=message):
        Metric(share_of_ones, **stated)


@pytest.mark.parametrize(
    ("thing", "named"),
    [(0.5, "not 0.5"), (None, "not None"), ("f1", "not 'f1'"), (dict, r"not the class dict: pass dict")],
)
def test_something_that_is_no_function_is_no_metric(thing, named):
    with pytest.raises(MetricError, match=f"a metric is a function of .*{named}"):
        Metric(thing, on="labels", goal="max")


def test_what_a_metric_is_given_can_be_said_in_a_line(metric):
    outputs, targets = torch.zeros(300, 3), torch.zeros(300)
    assert metric.describe(outputs, targets) == "labels: int64 (300,), targets: int64 (300,)"
    stated = {"goal": "max", "groups": True, "name": "mine"}
    scores = Metric(share_of_ones, on="scores", hidden=True, **stated)
    found = scores.describe(outputs, torch.arange(300), torch.zeros(300))
    assert found == "scores: float64 (300, 3), rows: int64 (300,), groups: float32 (300,)"
    values = Metric(share_of_ones, on="values", goal="min")
    assert values.describe(outputs[:, :1], targets) == "values: float32 (300,), targets: float32 (300,)"
    whole = Metric(share_of_ones, on="outputs", goal="min")
    assert whole.describe([{}, {}], [{}, {}]) == "outputs: list of 2, targets: list of 2"
    model = Metric(share_of_ones, on="model", **stated)
    assert model.describe(None, targets) == "the network itself, inputs and targets and groups"


def test_the_description_shows_in_the_representation():
    metric = Metric(functools.partial(fbeta_score, beta=2), on="labels", goal="max")
    assert repr(metric) == "Metric('fbeta_score(beta=2)', on='labels', goal='max')"
    metric = Metric(mean_squared_error, on="logits", goal="min", bounds=(0, 9), name="mse", groups=True)
    assert repr(metric) == "Metric('mse', on='logits', goal='min', bounds=(0.0, 9.0), groups=True)"


@pytest.mark.parametrize("answer", [0.5, np.float32(0.5), np.array(0.5), np.array([0.5]), torch.tensor(0.5)])
def test_any_single_number_is_an_answer(answer):
    metric = Metric(lambda *_: answer, on="labels", goal="max")
    assert metric.value(torch.ones(2), torch.ones(2)) == 0.5


@pytest.mark.parametrize("answer", ["0.5", None, np.array([0.5, 0.6]), {"f1": 0.5}, torch.ones(2), 1j])
def test_anything_else_is_an_error(answer):
    metric = Metric(lambda *_: answer, on="labels", goal="max", name="odd")
    with pytest.raises(MetricError, match=r"'odd' returned .*single number"):
        metric.value(torch.ones(2), torch.ones(2))


@pytest.mark.parametrize("answer", [math.nan, math.inf, -math.inf])
def test_an_answer_that_is_not_finite_is_an_error(answer):
    metric = Metric(lambda *_: answer, on="labels", goal="max", name="odd")
    with pytest.raises(MetricError, match=f"'odd' gave {answer}"):
        metric.value(torch.ones(2), torch.ones(2))


def test_an_exception_is_named_and_chained():
    def broken(y_true, prediction):
        raise ZeroDivisionError("no positives")

    metric = Metric(broken, on="labels", goal="max")
    with pytest.raises(MetricError, match=r"'broken'.*ZeroDivisionError: no positives") as caught:
        metric.value(torch.ones(2), torch.ones(2))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_diverged_model_has_no_value(metric, bad):
    with pytest.raises(MetricError, match=r"NaN or .inf"):
        metric.value(torch.tensor([1.0, bad]), torch.tensor([1, 0]))


def test_a_class_ruled_out_by_minus_infinity_is_no_divergence():
    metric = Metric(share_of_ones, on="labels", goal="max")
    assert metric.value(torch.tensor([[-math.inf, 1.0]]), torch.tensor([1])) == 1.0


def seen(on, outputs, targets):
    """What the function gets for raw outputs and targets."""
    arguments = []
    Metric(lambda *given: arguments.extend(given) or 0.0, on=on, goal="max").value(outputs, targets)
    return arguments


def test_the_function_gets_truth_first_as_integers_and_then_the_prediction():
    y_true, labels = seen("labels", torch.tensor([[1.0], [-1.0]]), torch.tensor([[1.0], [1.0]]))
    assert isinstance(y_true, np.ndarray) and y_true.dtype == np.int64 and labels.dtype == np.int64
    assert y_true.tolist() == [1, 1] and labels.tolist() == [1, 0]


def test_scores_and_raw_outputs_reach_the_function_as_described():
    outputs = torch.tensor([[0.0, 1.0], [2.0, -1.0]])
    np.testing.assert_allclose(seen("scores", outputs, torch.tensor([0, 1]))[1], outputs.double().softmax(1))
    for on in ("logits", "embeddings"):
        np.testing.assert_array_equal(seen(on, outputs, torch.tensor([0, 1]))[1], outputs)


def test_two_dimensional_targets_make_the_columns_labels_of_their_own():
    outputs, targets = torch.tensor([[0.1, 2.0, -1.0]]), torch.tensor([[1, 1, 0]])
    assert [array.tolist() for array in seen("labels", outputs, targets)] == [[[1, 1, 0]], [[1, 1, 0]]]
    np.testing.assert_allclose(seen("scores", outputs, targets)[1], outputs.double().sigmoid())


def test_soft_targets_reach_a_metric_of_logits_as_they_are():
    assert seen("logits", torch.zeros(2), torch.tensor([0.25, 1.0]))[0].tolist() == [0.25, 1.0]


def test_bfloat16_outputs_can_be_measured():
    assert seen("logits", torch.ones(2, dtype=torch.bfloat16), torch.zeros(2))[1].dtype == np.float32


def agreement(y_true, prediction):
    return float(np.mean(y_true == prediction))


def batched_agreement(targets, labels):
    return (targets == labels).double().mean(1)


@pytest.mark.parametrize("batched", [None, batched_agreement])
def test_each_member_may_have_rows_of_its_own(batched):
    metric = Metric(agreement, on="labels", goal="max", batched=batched)
    generator = torch.Generator().manual_seed(0)
    outputs = torch.randn(4, 11, generator=generator)
    targets = torch.randint(2, (4, 11), generator=generator)
    expected = [metric.value(o, t) for o, t in zip(outputs, targets, strict=True)]
    assert metric.values(outputs, targets).tolist() == pytest.approx(expected, abs=1e-15)
    shared = [metric.value(o, targets[0]) for o in outputs]
    assert metric.values(outputs, targets[0]).tolist() == pytest.approx(shared, abs=1e-15)
    assert metric.values(outputs, targets[0]).dtype == torch.float64


def test_the_batched_form_is_called_once_for_the_whole_population():
    sizes = []

    def batched(targets, labels):
        sizes.append((tuple(targets.shape), tuple(labels.shape)))
        return batched_agreement(targets, labels)

    Metric(agreement, on="labels", goal="max", batched=batched).values(torch.ones(5, 3), torch.ones(3))
    assert sizes == [((5, 3), (5, 3))]


def test_a_batched_form_of_the_wrong_shape_is_an_error():
    metric = Metric(agreement, on="labels", goal="max", batched=lambda *_: torch.ones(1))
    with pytest.raises(MetricError, match=r"shape \(1,\) for a population of 2"):
        metric.values(torch.ones(2, 3), torch.ones(3))


def picky(y_true, prediction):
    if prediction.sum() == 0:
        raise ValueError("no positive prediction")
    return 0.5


def batched_picky(targets, labels):
    if not labels.any(1).all():
        raise ValueError("no positive prediction")
    return torch.full((len(labels),), 0.5)


@pytest.mark.parametrize("batched", [None, batched_picky])
def test_a_failing_member_raises_or_is_nan_with_one_warning_while_the_others_get_their_values(batched):
    metric = Metric(picky, on="labels", goal="max", batched=batched)
    outputs = torch.tensor([[1.0, -1.0], [-1.0, -1.0], [1.0, 1.0], [math.nan, 1.0]])
    targets = torch.tensor([1, 0])
    with pytest.raises(MetricError, match="no positive prediction"):
        metric.values(outputs, targets)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        values = metric.values(outputs, targets, failures="nan")
    np.testing.assert_array_equal(values, [0.5, math.nan, 0.5, math.nan])
    assert [warning.category for warning in caught] == [MetricFailureWarning] * 2
    assert "member 1 of 4" in str(caught[0].message) and "'picky'" in str(caught[0].message)
    assert "member 3 of 4" in str(caught[1].message) and "NaN" in str(caught[1].message)
    assert caught[0].filename == __file__


def test_a_metric_with_groups_gets_them_and_one_without_ignores_them(metric):
    outputs, targets, groups = torch.ones(2, 3), torch.ones(3), torch.tensor([0, 0, 2])
    grouped = Metric(lambda *arrays: arrays[2].max() / 4, on="labels", goal="max", groups=True, name="grouped")
    assert grouped.value(outputs[0], targets, groups) == 0.5
    assert grouped.values(outputs, targets, groups).tolist() == [0.5, 0.5]
    assert grouped.values(outputs, targets, torch.stack([groups, groups * 2])).tolist() == [0.5, 1.0]
    assert metric.value(outputs[0], targets, groups) == 1.0
    with pytest.raises(MetricError, match="'grouped' needs the group"):
        grouped.value(outputs[0], targets)


def test_a_metric_on_the_model_runs_it_in_eval_mode_without_gradients():
    def spread(model, inputs, targets):
        outputs = model(inputs)
        assert not model.training and not outputs.requires_grad
        return float((outputs - targets).abs().mean())

    metric = Metric(spread, on="model", goal="min")
    model = nn.Sequential(nn.Dropout(0.5))
    assert metric.value_of_model(model, torch.ones(4), torch.zeros(4)) == 1.0
    assert model.training
    with pytest.raises(MetricError, match="value_of_model"):
        metric.value(torch.ones(4), torch.zeros(4))


def test_a_metric_on_the_model_may_take_groups_and_its_failure_is_named():
    def grouped(model, inputs, targets, groups):
        return float(groups.sum()) / 10

    metric = Metric(grouped, on="model", goal="max", groups=True)
    assert metric.value_of_model(nn.Identity(), None, None, torch.tensor([2, 3])) == 0.5
    with pytest.raises(MetricError, match="'grouped' needs the group"):
        metric.value_of_model(nn.Identity(), None, None)


def test_any_other_metric_can_be_asked_about_a_model_too(metric):
    outputs = torch.tensor([1.0, -1.0, 1.0, 1.0])
    assert metric.value_of_model(nn.Identity(), outputs, torch.ones(4)) == metric.value(outputs, torch.ones(4)) == 0.75


def test_targets_that_can_be_read_in_two_ways_are_refused_until_their_shape_says_which():
    metric = Metric(agreement, on="labels", goal="max")
    outputs = torch.eye(3).expand(3, 3, 3)  # 3 members, 3 examples, 3 columns
    targets = torch.tensor([[0, 1, 1], [0, 0, 0], [0, 1, 1]])
    with pytest.raises(MetricError, match="could be one row a member or several labels"):
        metric.values(outputs, targets)
    rows = metric.values(outputs, targets.unsqueeze(-1))
    columns = metric.values(outputs, targets.expand(3, 3, 3))
    assert rows.tolist() == pytest.approx([2 / 3, 1 / 3, 2 / 3])
    assert columns.tolist() == pytest.approx([(0 + 2 + 2) / 9] * 3)


@pytest.mark.parametrize(
    ("outputs", "targets", "message"),
    [
        (torch.ones(4), torch.ones(3), r"targets of shape \(1, 3\)"),
        (torch.ones(4, 2), torch.ones(4, 3), "multi-label"),
        (torch.ones(0), torch.ones(0), "no examples"),
    ],
)
def test_rows_that_do_not_match_are_an_error(metric, outputs, targets, message):
    with pytest.raises(MetricError, match=message):
        metric.value(outputs, targets)
