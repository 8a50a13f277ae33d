import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from metricopt.losses import aucpr, hinge, log_odds, logistic, raw_logits


@pytest.mark.parametrize("surrogate", [logistic, hinge])
def test_a_surrogate_is_never_below_the_mistake_it_stands_for(surrogate):
    gaps = torch.linspace(-5, 5, 101, dtype=torch.float64)
    values = surrogate(gaps)
    assert bool((values >= (gaps <= 0).double()).all())
    assert bool((values.diff() <= 0).all())


@pytest.mark.parametrize("columns", [0, 1, 2, 5])
def test_log_odds_are_those_of_each_class_against_the_rest(columns):
    generator = torch.Generator().manual_seed(0)
    outputs = torch.randn((20, columns) if columns else (20,), generator=generator, dtype=torch.float64)
    positive = outputs.reshape(-1).sigmoid()
    p = outputs.softmax(1) if columns > 1 else torch.stack([1 - positive, positive], dim=1)
    np.testing.assert_allclose(log_odds(outputs), torch.log(p / (1 - p)), rtol=1e-9)


def test_confident_log_odds_stay_apart_where_probabilities_round_to_one_and_equal_logits_are_no_trouble():
    outputs = torch.tensor([[50.0, 0.0, 0.0], [51.0, 0.0, 0.0], [1.0, 1.0, 1.0]], requires_grad=True)
    odds = log_odds(outputs)
    odds.sum().backward()
    assert (odds[1, 0] - odds[0, 0]).item() == 1.0
    np.testing.assert_allclose(odds[2].detach(), np.full(3, -np.log(2)), rtol=1e-6)
    assert outputs.grad is not None and bool(outputs.grad.isfinite().all())


def test_by_raw_logits_a_step_in_aucpr_is_one_minus_scikit_learns_average_precision_of_the_logits():
    draw = torch.Generator().manual_seed(0)
    outputs, targets = torch.randn(50, 3, generator=draw).double(), torch.arange(50) % 3

    def step(gap):
        return (gap <= 0).double()

    expected = average_precision_score(np.eye(3)[targets], outputs.numpy(), average="macro")
    assert float(aucpr(outputs, targets, surrogate=step, scores=raw_logits)) == pytest.approx(1 - expected)
    assert float(aucpr(outputs, targets, surrogate=step)) != pytest.approx(1 - expected)
