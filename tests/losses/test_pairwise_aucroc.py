import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from sklearn.metrics import roc_auc_score
from torch.func import grad

from metricopt.losses import hinge, logistic, pairwise_aucroc


def step(gap):
    """A pair in the wrong order is one mistake, a tie half of one."""
    return (gap < 0).double() + 0.5 * (gap == 0)


def drawn(seed, n, columns, *, grid=False):
    generator = torch.Generator().manual_seed(seed)
    outputs = torch.randn((n, columns) if columns else (n,), generator=generator, dtype=torch.float64)
    return (2 * outputs).round() if grid else outputs, torch.randint(max(columns, 2), (n,), generator=generator)


def loop(outputs, targets, pair_loss):
    """By plain loops over classes, positives and negatives, with scores log p / (1 - p)."""
    outputs, targets = outputs.numpy().reshape(len(targets), -1), targets.numpy()
    if outputs.shape[1] == 1:
        outputs = np.hstack([np.zeros_like(outputs), outputs])
    p = softmax(outputs, axis=1)
    means = []
    for c in np.unique(targets):
        pairs = [
            pair_loss(np.log(p[i, c] / (1 - p[i, c])) - np.log(p[j, c] / (1 - p[j, c])))
            for i in range(len(targets))
            for j in range(len(targets))
            if targets[i] == c != targets[j]
        ]
        means.append(np.mean(pairs) if pairs else 0.0)
    return np.mean(means)


SURROGATES = {
    "logistic": (logistic, lambda gap: np.log2(1 + np.exp(-gap))),
    "hinge": (hinge, lambda gap: max(0.0, 1 - gap)),
}


@pytest.mark.parametrize("name", SURROGATES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), columns=st.integers(0, 4))
def test_it_is_the_mean_over_classes_of_the_mean_over_pairs(name, seed, n, columns):
    surrogate, reference = SURROGATES[name]
    outputs, targets = drawn(seed, n, columns)
    loss = float(pairwise_aucroc(outputs, targets, surrogate=surrogate))
    assert loss == pytest.approx(loop(outputs, targets, reference), abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(4, 20))
def test_with_a_step_for_two_classes_it_is_one_minus_the_area_under_roc_ties_included(seed, n):
    outputs, targets = drawn(seed, n, 0, grid=True)
    targets[:2] = torch.tensor([0, 1])
    area = roc_auc_score(targets, outputs)
    assert float(pairwise_aucroc(outputs, targets, surrogate=step)) == pytest.approx(1 - area, abs=1e-12)
    for surrogate in (logistic, hinge):
        assert float(pairwise_aucroc(outputs, targets, surrogate=surrogate)) >= 1 - area - 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_with_a_step_for_many_classes_it_is_one_minus_scikit_learns_mean_of_each_against_the_rest(seed):
    outputs, targets = drawn(seed, 40, 4)
    targets[:4] = torch.arange(4)
    area = roc_auc_score(targets, outputs.softmax(1), multi_class="ovr", average="macro")
    assert float(pairwise_aucroc(outputs, targets, surrogate=step)) == pytest.approx(1 - area, abs=1e-12)


def test_a_threshold_does_not_matter():
    outputs, targets = drawn(0, 20, 0)
    torch.testing.assert_close(pairwise_aucroc(outputs + 7, targets), pairwise_aucroc(outputs, targets))


def test_descent_turns_a_wrong_order_of_few_positives_among_many_negatives_round():
    generator = torch.Generator().manual_seed(0)
    targets = (torch.rand(400, generator=generator) < 0.1).long()
    x = torch.randn(400, 5, generator=generator) + targets[:, None] * torch.tensor([1.0, -1.0, 0.5, 0.0, 0.0])
    weights = torch.tensor([-1.0, 1.0, 0.0, 1.0, 0.0])
    before = roc_auc_score(targets, x @ weights)
    for _ in range(100):
        weights = weights - grad(lambda w: pairwise_aucroc(x @ w, targets))(weights)
    assert before < 0.3 and roc_auc_score(targets, x @ weights) > 0.8


def test_a_batch_of_one_class_has_no_pairs():
    outputs, targets = torch.tensor([1.0, -2.0]), torch.tensor([1, 1])
    assert float(pairwise_aucroc(outputs, targets)) == 0.0
