"""Metrics of the zoo against scikit-learn and plain loops."""

import pytest
import torch
from sklearn.metrics import cohen_kappa_score

from metricopt_lab.problems.zoo.metrics import cohen_kappa, quadratic_kappa, recall_at_false_alarms, within_one


@pytest.fixture
def rows():
    draw = torch.Generator().manual_seed(0)
    targets = torch.randint(4, (300,), generator=draw)
    outputs = torch.randn(3, 300, 4, generator=draw) + 1.5 * torch.nn.functional.one_hot(targets, 4)
    return outputs, targets


@pytest.mark.parametrize(("metric", "weights"), [(cohen_kappa(4), None), (quadratic_kappa(4), "quadratic")])
def test_kappas_are_those_of_scikit_learn(rows, metric, weights):
    outputs, targets = rows
    expected = [cohen_kappa_score(targets, each.argmax(1), weights=weights) for each in outputs]
    assert metric.values(outputs, targets, None).tolist() == pytest.approx(expected)


def test_a_kappa_below_chance_counts_as_none():
    assert cohen_kappa(2).value(torch.eye(2), torch.tensor([1, 0])) == 0


def test_within_one_counts_grades_that_are_at_most_one_off(rows):
    outputs, targets = rows
    expected = [sum(abs(int(a) - int(b)) <= 1 for a, b in zip(each.argmax(1), targets, strict=True)) / 300
                for each in outputs]  # fmt: skip
    assert within_one().values(outputs, targets, None).tolist() == pytest.approx(expected)


def test_recall_at_false_alarms_is_the_best_of_all_thresholds_that_keep_the_rate(rows):
    outputs, targets = rows
    odds = outputs[0, :, 2] - outputs[0][:, [0, 1, 3]].logsumexp(1)
    truth = targets == 2
    best = 0.0
    for threshold in odds.tolist():
        said = odds > threshold
        if float(said[~truth].double().mean()) <= 0.05:
            best = max(best, float(said[truth].double().mean()))
    assert recall_at_false_alarms(2).value(outputs[0], targets) == pytest.approx(best)
