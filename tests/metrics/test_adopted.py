import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
import torchmetrics
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import fbeta_score, get_scorer, get_scorer_names, make_scorer, mean_squared_error
from torch import nn

from metricopt.core.errors import MetricError
from metricopt.metrics import METRICS, Metric, as_metric


def fitted(classes):
    """A scikit-learn classifier and the linear torch model with the same coefficients, and data."""
    rng = np.random.default_rng(classes)
    X = rng.normal(size=(120, 3))
    y = (X[:, 0] + rng.normal(size=120) > 0).astype(int) + (classes - 2) * (X[:, 1] > 0.5)
    estimator = LogisticRegression().fit(X, y)
    model = nn.Linear(3, len(estimator.coef_)).double()
    model.load_state_dict({"weight": torch.tensor(estimator.coef_), "bias": torch.tensor(estimator.intercept_)})
    return estimator, model, X, y


@pytest.mark.parametrize("name", ["f1", "roc_auc", "accuracy", "average_precision", "balanced_accuracy", "jaccard"])
def test_a_binary_scorer_gives_a_torch_model_what_it_gives_its_scikit_learn_twin(name):
    estimator, model, X, y = fitted(2)
    expected = get_scorer(name)(estimator, X, y)
    inputs, targets = torch.tensor(X), torch.tensor(y)
    metric = Metric(get_scorer(name))
    assert metric.goal == "max" and 0 < expected < 1
    assert metric.value_of_model(model, inputs, targets) == pytest.approx(expected, abs=1e-12)
    outputs = model(inputs)
    two = torch.cat([torch.zeros_like(outputs), outputs], dim=1)
    for shape in (outputs, outputs.squeeze(1), two, two + 5.0):
        assert metric.value(shape, targets) == pytest.approx(expected, abs=1e-12)
        assert metric.value(shape, targets.double().unsqueeze(1)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["accuracy", "balanced_accuracy", "f1_macro", "roc_auc_ovr", "roc_auc_ovo_weighted"])
def test_a_multi_class_scorer_gives_a_torch_model_what_it_gives_its_scikit_learn_twin(name):
    estimator, model, X, y = fitted(3)
    expected = get_scorer(name)(estimator, X, y)
    metric = as_metric(get_scorer(name))
    assert metric.value_of_model(model, torch.tensor(X), torch.tensor(y)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["neg_log_loss", "neg_brier_score"])
@pytest.mark.parametrize("stated", [{}, {"bounds": (-5.0, 0.0)}])
def test_a_negated_scorer_needs_no_bounds_and_takes_them(name, stated):
    estimator, model, X, y = fitted(2)
    metric = Metric(get_scorer(name), **stated)
    found = metric.value_of_model(model, torch.tensor(X), torch.tensor(y))
    assert found == pytest.approx(get_scorer(name)(estimator, X, y)) and metric.unbounded == (not stated)


@pytest.mark.filterwarnings("ignore:.*(ill-defined|meaningless)")
@pytest.mark.parametrize("name", get_scorer_names())
def test_every_name_of_a_scorer_is_the_name_of_a_metric(name):
    rng = np.random.default_rng(0)
    targets = torch.tensor(rng.integers(2, size=(60, 3) if "samples" in name else 60))
    outputs = torch.tensor(rng.normal(size=targets.shape))
    metric = as_metric(name)
    if metric.on == "values":
        targets, outputs = targets + 1.5, outputs.abs() + 0.1
    value = metric.value(outputs, targets)
    assert metric.goal == "max" and 0 <= metric.cost(value) <= 1
    if name not in METRICS:
        assert metric.name == name


def test_a_scorer_of_several_labels_sees_each_column():
    outputs, targets = torch.tensor([[2.0, -1.0], [-1.0, 3.0], [1.0, 1.0]]), torch.tensor([[1, 0], [0, 1], [0, 1]])
    assert Metric(get_scorer("f1_micro")).value(outputs, targets) == pytest.approx(2 * 3 / (3 + 4))
    assert Metric(get_scorer("roc_auc")).value(outputs, targets) == pytest.approx(1.0)


def test_a_scorer_made_with_parameters_keeps_them():
    scorer = make_scorer(fbeta_score, beta=2)
    outputs, targets = torch.tensor([1.0, 1.0, -1.0, -1.0]), torch.tensor([1, 0, 1, 1])
    assert Metric(scorer).value(outputs, targets) == pytest.approx(fbeta_score([1, 0, 1, 1], [1, 1, 0, 0], beta=2))


def test_a_scorer_accepts_on_model_and_refuses_what_contradicts_it():
    assert Metric(get_scorer("f1"), on="model", goal="max").value(torch.ones(2), torch.ones(2)) == 1.0
    with pytest.raises(MetricError, match=r"on='labels'.*leave it out"):
        Metric(get_scorer("f1"), on="labels")
    with pytest.raises(MetricError, match=r"goal='min'.*leave it out"):
        Metric(get_scorer("f1"), goal="min")


def test_a_scorer_metric_can_be_sent_to_another_process():
    metric = pickle.loads(pickle.dumps(Metric(get_scorer("f1"))))
    assert metric.value(torch.ones(2), torch.ones(2)) == 1.0


@pytest.mark.parametrize(
    "outputs", [torch.tensor([1.0, 2.0, -1.0, -2.0]), torch.tensor([[1.0], [2.0], [-1.0], [-2.0]])]
)
def test_a_torchmetrics_object_gets_scores_and_forgets_between_calls(outputs):
    metric = Metric(torchmetrics.F1Score(task="binary"))
    assert (metric.name, metric.on, metric.goal) == ("BinaryF1Score", "scores", "max")
    targets = torch.tensor([1, 0, 1, 0])
    first = [metric.value(sign * outputs, targets) for sign in (1, -1)]
    assert first == [metric.value(sign * outputs, targets) for sign in (1, -1)] == pytest.approx([0.5, 0.5])
    assert metric.values(torch.stack([outputs, outputs.abs()]), targets.double()).tolist() == pytest.approx(
        [0.5, 2 / 3]
    )


def test_a_torchmetrics_object_of_several_classes_agrees_with_torchmetrics():
    generator = torch.Generator().manual_seed(0)
    outputs, targets = torch.randn(50, 4, generator=generator), torch.randint(4, (50,), generator=generator)
    for function in (
        torchmetrics.AUROC(task="multiclass", num_classes=4),
        torchmetrics.F1Score(task="multiclass", num_classes=4, average="macro"),
    ):
        expected = float(function(outputs.softmax(1), targets))
        function.reset()
        assert as_metric(function).value(outputs, targets) == pytest.approx(expected, abs=1e-6)


def test_a_torchmetrics_object_keeps_what_its_owner_accumulated():
    mine = torchmetrics.Accuracy(task="binary")
    mine.update(torch.tensor([0.9, 0.2]), torch.tensor([1, 1]))
    Metric(mine).value(torch.ones(4), torch.ones(4))
    assert float(mine.compute()) == 0.5


def test_a_torchmetrics_object_on_labels_gets_labels():
    metric = Metric(torchmetrics.Accuracy(task="multiclass", num_classes=3, average="micro"), on="labels")
    assert metric.value(torch.eye(3), torch.tensor([0, 1, 0])) == pytest.approx(2 / 3)


def test_lower_is_better_where_torchmetrics_says_so():
    metric = Metric(torchmetrics.HammingDistance(task="binary"))
    assert metric.goal == "min" and metric.cost(0.25) == 0.25


def test_what_torchmetrics_leaves_open_must_be_stated():
    with pytest.raises(MetricError, match="without 'on'"):
        Metric(torchmetrics.MeanSquaredError())
    with pytest.raises(MetricError, match="without 'goal'"):
        Metric(torchmetrics.SumMetric(), on="logits")
    metric = Metric(torchmetrics.MeanSquaredError(), on="logits", bounds=(0, 100))
    outputs, targets = torch.tensor([1.0, 5.0]), torch.tensor([0.0, 2.0])
    assert metric.value(outputs, targets) == pytest.approx(mean_squared_error(targets, outputs))
    assert metric.goal == "min"


@pytest.mark.parametrize("kind", ["F1Score", "AUROC", "Accuracy", "MatthewsCorrCoef"])
@pytest.mark.parametrize("on", [None, "scores", "logits", "labels"])
def test_a_torchmetrics_object_of_two_classes_gets_the_probability_of_class_1_of_two_logits(kind, on):
    if kind == "AUROC" and on == "labels":
        pytest.skip("a ranking needs scores")
    generator = torch.Generator().manual_seed(0)
    outputs, targets = torch.randn(80, 2, generator=generator), torch.randint(2, (80,), generator=generator)
    function = getattr(torchmetrics, kind)(task="binary")
    expected = float(function(outputs.double().softmax(1)[:, 1], targets))
    assert Metric(function, on=on).value(outputs, targets) == pytest.approx(expected, abs=1e-6)


def test_one_metric_of_a_collection_is_chosen_by_its_key():
    collection = torchmetrics.MetricCollection(
        {"f1": torchmetrics.F1Score(task="binary"), "mse": torchmetrics.MeanSquaredError()}, prefix="val_"
    )
    metric = Metric(collection, key="val_f1")
    assert (metric.name, metric.on, metric.goal) == ("BinaryF1Score", "scores", "max")
    assert metric.value(torch.tensor([1.0, 1.0, -1.0]), torch.tensor([1, 0, 1])) == pytest.approx(0.5)
    for wrong in (None, "f2"):
        with pytest.raises(MetricError, match=rf"'val_f1', 'val_mse' was given with key={wrong!r}.*key='val_f1'"):
            Metric(collection, key=wrong)


def test_one_entry_of_a_function_that_returns_a_mapping_is_chosen_by_its_key():
    def report(y_true, labels):
        return {"share": float(labels.mean()), "n": len(y_true)}

    metric = Metric(report, on="labels", goal="max", key="share")
    assert metric.name == "report['share']" and metric.value(torch.tensor([1.0, -1.0]), torch.zeros(2)) == 0.5
    with pytest.raises(MetricError, match="entries 'share', 'n', but key='f1'"):
        Metric(report, on="labels", goal="max", key="f1").value(torch.ones(2), torch.zeros(2))


def test_a_torchmetrics_object_without_an_average_is_told_to_take_one():
    metric = Metric(torchmetrics.F1Score(task="multiclass", num_classes=3, average=None))
    with pytest.raises(MetricError, match=r"'MulticlassF1Score' returned tensor.*average='macro'"):
        metric.value(torch.eye(3), torch.tensor([0, 1, 2]))


def test_neither_library_is_imported_for_a_plain_function():
    program = (
        "import sys, torch; from metricopt.metrics import Metric; "
        "Metric(lambda y, p: 1.0, on='labels', goal='max').value(torch.ones(2), torch.ones(2)); "
        "sys.exit(int('torchmetrics' in sys.modules or 'sklearn' in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
