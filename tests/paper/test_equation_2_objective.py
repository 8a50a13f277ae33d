"""Eq. 2: L_v = gamma * L_regress + L_oe, against plain Python loops over t."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from metricopt.paper.equation_2_objective import fisher_ratio, hard_pairs, ordinal_loss, regression_loss, value_loss

steps = st.integers(1, 9)
seeds = st.integers(0, 10**6)


def labels(n, seed, batch=()):
    """Values f, embeddings g, means M and deviations s, some rows of g and M equal to others."""
    generator = torch.Generator().manual_seed(seed)
    copied = torch.randint(n, (n,), generator=generator)
    g = torch.randn(*batch, n, 3, generator=generator, dtype=torch.float64)[..., copied, :]
    mean = torch.rand(*batch, n, generator=generator, dtype=torch.float64)[..., copied]
    std = 0.01 + 0.3 * torch.rand(*batch, n, generator=generator, dtype=torch.float64)
    values = torch.rand(*batch, n, generator=generator, dtype=torch.float64)
    return values, g, mean, std


def ratio_by_hand(mean, std, t, u):
    return (mean[t] - mean[u]) ** 2 / (std[t] ** 2 + std[u] ** 2)


def triplets_by_hand(g, mean, std):
    """(t, D_pos, D_neg) of each anchor that has both a lookalike and a stranger."""
    found = []
    for t in range(len(mean)):
        distance = [math.dist(g[t], g[u]) for u in range(len(mean))]
        alike = [distance[u] for u in range(len(mean)) if u != t and ratio_by_hand(mean, std, t, u) < 2]
        strange = [distance[u] for u in range(len(mean)) if ratio_by_hand(mean, std, t, u) >= 2]
        if alike and strange:
            found.append((t, max(alike), min(strange)))
    return found


@settings(deadline=None)
@given(n=steps, seed=seeds)
def test_l_regress_is_the_absolute_error_weighted_by_one_over_s(n, seed):
    values, _, mean, std = labels(n, seed)
    weights = sum(1 / std[t] for t in range(n))
    expected = sum(abs(values[t] - mean[t]) / std[t] for t in range(n)) / weights
    torch.testing.assert_close(regression_loss(values, mean, std), expected)


@settings(deadline=None)
@given(n=steps, seed=seeds)
def test_the_fisher_ratio_is_the_squared_difference_over_the_summed_variances(n, seed):
    _, _, mean, std = labels(n, seed)
    ratio = fisher_ratio(mean, std)
    expected = [[float(ratio_by_hand(mean, std, t, u)) for u in range(n)] for t in range(n)]
    torch.testing.assert_close(ratio, torch.tensor(expected, dtype=torch.float64))


@settings(deadline=None)
@given(n=steps, seed=seeds)
def test_each_anchor_gets_its_farthest_lookalike_and_nearest_stranger(n, seed):
    _, g, mean, std = labels(n, seed)
    expected = triplets_by_hand(g.tolist(), mean.tolist(), std.tolist())
    distance = torch.cdist(g, g)
    t_p, t_n, usable = hard_pairs(distance, fisher_ratio(mean, std))
    positive, negative = (distance.gather(1, index[:, None]).squeeze(1) for index in (t_p, t_n))
    assert usable.nonzero().flatten().tolist() == [t for t, _, _ in expected]
    torch.testing.assert_close(positive[usable].tolist(), [far for _, far, _ in expected], atol=1e-6, rtol=0)
    torch.testing.assert_close(negative[usable].tolist(), [near for _, _, near in expected], atol=1e-6, rtol=0)


@settings(deadline=None)
@given(n=steps, seed=seeds)
def test_l_oe_is_the_mean_logistic_loss_of_the_hard_triplets(n, seed):
    _, g, mean, std = labels(n, seed)
    terms = [math.log(1 + math.exp(-(near - far))) for _, far, near in triplets_by_hand(g.tolist(), mean.tolist(), std)]
    expected = sum(terms) / len(terms) if terms else 0.0
    assert float(ordinal_loss(g, mean, std)) == pytest.approx(expected, abs=1e-5)


def test_a_ratio_of_exactly_two_makes_a_stranger():
    mean, std = torch.tensor([0.0, 2.0, 0.0]), torch.ones(3)  # r_01 = 4 / 2
    _, stranger, usable = hard_pairs(torch.full((3, 3), 5.0), fisher_ratio(mean, std))
    assert usable.tolist() == [True, False, True]
    assert stranger[usable].tolist() == [1, 1]


@pytest.mark.parametrize("means", [[0.1, 0.1, 0.1], [0.1, 0.5, 0.9]], ids=["all lookalikes", "all strangers"])
def test_anchors_without_both_are_skipped_and_leave_no_loss_and_no_gradient(means):
    g = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    loss = ordinal_loss(g, torch.tensor(means), torch.full((3,), 0.01))
    loss.backward()
    assert float(loss.detach()) == 0 and g.grad is not None and not g.grad.any()


@settings(max_examples=30, deadline=None)
@given(n=steps, seed=seeds)
def test_the_gradient_is_finite_even_where_embeddings_coincide(n, seed):
    _, g, mean, std = labels(n, seed)
    for embedding in (g, torch.zeros_like(g)):
        leaf = embedding.clone().requires_grad_()
        ordinal_loss(leaf, mean, std).backward()
        assert leaf.grad is not None and leaf.grad.isfinite().all()


def test_a_step_down_l_oe_widens_the_gap_between_lookalikes_and_strangers():
    mean, std = torch.tensor([0.1, 0.1, 0.9]), torch.full((3,), 0.01)
    g = torch.tensor([[0.0], [2.0], [1.0]], requires_grad=True)
    ordinal_loss(g, mean, std).backward()
    assert g.grad is not None
    after = (g - 0.1 * g.grad).flatten().tolist()
    for anchor, lookalike in ((0, 1), (1, 0)):
        assert abs(after[anchor] - after[2]) - abs(after[anchor] - after[lookalike]) > 1 - 2 + 0.01


@settings(deadline=None)
@given(n=steps, seed=seeds)
def test_a_stack_of_tasks_gives_each_task_its_own_loss(n, seed):
    stacked = labels(n, seed, batch=(2, 3))
    losses = value_loss(*stacked)
    for i in range(2):
        for j in range(3):
            torch.testing.assert_close(losses[i, j], value_loss(*(part[i, j] for part in stacked)))


@settings(deadline=None)
@given(n=steps, seed=seeds, gamma=st.floats(0, 100), ordinal=st.sampled_from([0.0, 1.0, 2.5]))
def test_l_v_is_the_weighted_sum_of_the_two(n, seed, gamma, ordinal):
    values, g, mean, std = labels(n, seed)
    expected = gamma * regression_loss(values, mean, std) + ordinal * ordinal_loss(g, mean, std)
    torch.testing.assert_close(value_loss(values, g, mean, std, gamma=gamma, ordinal=ordinal), expected)


def test_gamma_is_ten_as_in_the_paper():
    values, g, mean, std = labels(6, 0)
    torch.testing.assert_close(value_loss(values, g, mean, std), value_loss(values, g, mean, std, gamma=10.0))
