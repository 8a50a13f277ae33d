import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from metricopt.core.errors import DataError
from metricopt.losses import class_balanced, cost_sensitive_f, cross_entropy


def drawn(seed, n, columns):
    generator = torch.Generator().manual_seed(seed)
    outputs = torch.randn((n, columns) if columns else (n,), generator=generator, dtype=torch.float64)
    return outputs, torch.randint(max(columns, 2), (n,), generator=generator)


def loss_of_example(output, target):
    """Minus the log-probability of the target, by the definition of sigmoid and softmax."""
    logits = [0.0, float(output)] if output.numel() == 1 else output.tolist()
    return -math.log(math.exp(logits[target]) / sum(math.exp(logit) for logit in logits))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 8), columns=st.integers(0, 4))
def test_cross_entropy_is_the_mean_surprise(seed, n, columns):
    outputs, targets = drawn(seed, n, columns)
    expected = np.mean([loss_of_example(o, t) for o, t in zip(outputs, targets.tolist(), strict=True)])
    assert float(cross_entropy(outputs, targets)) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 8), columns=st.integers(0, 4))
def test_class_balanced_is_the_mean_over_the_classes_present_of_their_mean_surprise(seed, n, columns):
    outputs, targets = drawn(seed, n, columns)
    losses = np.array([loss_of_example(o, t) for o, t in zip(outputs, targets.tolist(), strict=True)])
    expected = np.mean([losses[targets.numpy() == c].mean() for c in np.unique(targets)])
    assert float(class_balanced(outputs, targets)) == pytest.approx(expected, abs=1e-12)


def test_very_confident_mistakes_have_a_finite_loss_and_gradient():
    outputs = torch.tensor([1000.0, -1000.0], requires_grad=True)
    loss = cross_entropy(outputs, torch.tensor([0, 1]))
    loss.backward()
    assert float(loss.detach()) == 1000.0 and outputs.grad.tolist() == [0.5, -0.5]


@settings(max_examples=200, deadline=None)
@given(
    counts=st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30)),
    t=st.floats(0, 1),
    beta=st.sampled_from([0.5, 1.0, 2.0]),
)
def test_a_classifier_reaches_f_beta_t_exactly_when_its_costs_are_within_the_budget(counts, t, beta):
    tp, fn, fp = counts
    if tp + fn == 0:
        return
    f = (1 + beta**2) * tp / ((1 + beta**2) * tp + beta**2 * fn + fp)
    # The loss of one example is its cost times its cross-entropy, which is log 2 at a logit of zero.
    missed, alarmed = (
        float(cost_sensitive_f(t, beta)(torch.zeros(1, dtype=torch.float64), torch.tensor([y]))) / math.log(2)
        for y in (1, 0)
    )
    slack = (1 - t) * (tp + fn) - (missed * fn + alarmed * fp)
    if abs(f - t) > 1e-9:
        assert (f > t) == (slack > 0)
    else:
        assert slack == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_the_best_constant_prediction_at_the_best_f_crosses_zero_where_the_threshold_should_be(beta):
    t = 0.6
    threshold = t / (1 + beta**2)  # predict positive where its probability exceeds this
    loss = cost_sensitive_f(t, beta)
    for share, sign in ((threshold - 0.05, -1), (threshold + 0.05, 1)):
        targets = torch.arange(1000) < round(1000 * share)
        logit = torch.zeros((), dtype=torch.float64, requires_grad=True)
        loss(logit.expand(1000), targets).backward()
        assert -sign * float(logit.grad) > 0


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 8), t=st.floats(0, 1), beta=st.floats(0.1, 3))
def test_two_columns_cost_what_their_difference_costs_and_both_follow_the_loop(seed, n, t, beta):
    outputs, targets = drawn(seed, n, 2)
    costs = {1: (1 + beta**2 - t) / (1 + beta**2), 0: t / (1 + beta**2)}
    pairs = list(zip(outputs, targets.tolist(), strict=True))
    expected = np.mean([costs[target] * loss_of_example(output, target) for output, target in pairs])
    loss = cost_sensitive_f(t, beta)
    assert float(loss(outputs, targets)) == pytest.approx(expected, abs=1e-12)
    assert float(loss(outputs[:, 1] - outputs[:, 0], targets)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("t", "beta"), [(-0.1, 1.0), (1.1, 1.0), (0.5, 0.0), (math.nan, 1.0)])
def test_costs_that_mean_nothing_are_refused(t, beta):
    with pytest.raises(DataError, match=f"t={t} and beta={beta}"):
        cost_sensitive_f(t, beta)


def test_three_classes_have_no_false_positives():
    with pytest.raises(DataError, match="cost_sensitive_f met 3 output columns"):
        cost_sensitive_f()(torch.zeros(2, 3), torch.tensor([0, 2]))
