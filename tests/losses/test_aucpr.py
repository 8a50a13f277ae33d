import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score
from torch import nn
from torch.func import grad

from metricopt.core.errors import DataError
from metricopt.losses import AUCPRLoss, aucpr, cross_entropy, hinge, logistic


def step(gap):
    return (gap <= 0).double()


def drawn(seed, n, columns, *, grid=False):
    generator = torch.Generator().manual_seed(seed)
    outputs = torch.randn((n, columns) if columns else (n,), generator=generator, dtype=torch.float64)
    return (2 * outputs).round() if grid else outputs, torch.randint(max(columns, 2), (n,), generator=generator)


def one_against_rest(outputs, targets):
    """Scores and positives of each class that counts: class 1 of two, else those present."""
    if outputs.ndim == 1:
        return [(outputs.numpy(), targets.numpy() == 1)]
    p = outputs.softmax(1)
    odds = torch.log(p / (1 - p)).numpy()
    classes = [1] if p.shape[1] == 2 else np.unique(targets)
    return [(odds[:, c], targets.numpy() == c) for c in classes]


def bound(scores, positive, false_alarm):
    """One minus the mean over positives of a lower bound on the precision at their score, by plain loops."""
    precisions = []
    for score in scores[positive]:
        hits = sum(other >= score for other in scores[positive])
        precisions.append(hits / (hits + sum(false_alarm(score - other) for other in scores[~positive])))
    return 1 - np.mean(precisions) if precisions else 0.0


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), columns=st.sampled_from([0, 2, 3, 4]))
def test_it_is_one_minus_the_mean_bound_on_precision_at_the_positives(seed, n, columns):
    outputs, targets = drawn(seed, n, columns)
    expected = np.mean(
        [bound(s, p, lambda gap: np.log2(1 + np.exp(-gap))) for s, p in one_against_rest(outputs, targets)]
    )
    assert float(aucpr(outputs, targets)) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(4, 20))
def test_on_two_classes_it_is_never_below_one_minus_average_precision_ties_included_and_a_step_makes_it_that(seed, n):
    outputs, targets = drawn(seed, n, 0, grid=True)
    targets[:2] = torch.tensor([0, 1])
    missing = 1 - average_precision_score(targets, outputs)
    assert float(aucpr(outputs, targets, surrogate=step)) == pytest.approx(missing, abs=1e-12)
    for surrogate in (logistic, hinge):
        assert float(aucpr(outputs, targets, surrogate=surrogate)) >= missing - 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_on_many_classes_it_bounds_scikit_learns_macro_average(seed):
    outputs, targets = drawn(seed, 40, 4)
    targets[:4] = torch.arange(4)
    missing = 1 - average_precision_score(targets, outputs.softmax(1), average="macro")
    assert float(aucpr(outputs, targets, surrogate=step)) == pytest.approx(missing, abs=1e-12)
    assert float(aucpr(outputs, targets)) > missing


def test_far_apart_scores_make_the_bound_tight():
    outputs, targets = torch.tensor([3.0, 2.0, 1.0, 0.0]).double(), torch.tensor([1, 0, 1, 0])
    sharp = float(aucpr(100 * outputs, targets, surrogate=lambda gap: logistic(gap).clamp(max=1)))
    assert sharp == pytest.approx(1 - average_precision_score(targets, outputs), abs=1e-9)


def rare_positives(seed=0):
    """Positives are a tenth; the first feature separates the best of them, the second misleads on average."""
    generator = torch.Generator().manual_seed(seed)
    targets = (torch.rand(400, generator=generator) < 0.1).long()
    x = torch.randn(400, 4, generator=generator)
    x[:, 0] += 1.5 * targets
    x[:, 1] += 3 * x[:, 1].clamp(min=0) * (1 - targets)
    return x, targets


def test_descent_raises_average_precision_above_where_cross_entropy_takes_it():
    x, targets = rare_positives()
    weights = torch.tensor([0.2, 1.0, 0.0, 0.0, 0.0])
    scores = lambda w: x @ w[:4] + w[4]  # noqa: E731
    ends = {}
    for loss in (cross_entropy, aucpr):
        ends[loss] = weights
        for _ in range(150):
            ends[loss] = ends[loss] - 0.5 * grad(lambda w, loss=loss: loss(scores(w), targets))(ends[loss])
    before, plain, direct = (
        average_precision_score(targets, scores(w)) for w in (weights, ends[cross_entropy], ends[aucpr])
    )
    assert direct > before + 0.2 and direct > plain


def lagrangian(scores, positive, p, threshold, multiplier, surrogate):
    missed = np.mean([surrogate(s - threshold) for s in scores[positive]])
    alarms = sum(surrogate(threshold - s) for s in scores[~positive]) / positive.sum()
    return (1 + multiplier * (1 - p)) * missed + multiplier * p * alarms - multiplier * (1 - p)


@pytest.mark.parametrize("columns", [0, 1, 2, 3])
def test_the_module_is_the_lagrangian_of_recall_at_each_precision(columns):
    outputs, targets = drawn(3, 15, columns)
    loss = AUCPRLoss(max(columns, 2), anchors=3, precision_range=(0.2, 1.0)).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        loss.thresholds.normal_(generator=generator)
        loss.duals.normal_(generator=generator)
    expected = []
    scores = one_against_rest(outputs.reshape(-1) if columns == 1 else outputs, targets)
    for c, (score, positive) in enumerate(scores):
        for k, p in enumerate([0.4, 0.6, 0.8]):
            b, multiplier = loss.thresholds[c, k].item(), abs(loss.duals[c, k].item())
            each = lagrangian(score, positive, p, b, multiplier, lambda gap: np.log2(1 + np.exp(-gap)))
            expected.append(each)
    assert loss(outputs, targets).item() == pytest.approx(np.mean(expected), abs=1e-6)


@pytest.mark.parametrize("surrogate", [logistic, hinge])
def test_at_the_best_threshold_and_worst_multiplier_it_bounds_one_minus_recall_at_the_precision(surrogate):
    outputs, targets = drawn(1, 12, 0)
    outputs = outputs + 3 * targets
    loss = AUCPRLoss(2, anchors=1, precision_range=(0.5, 0.7), surrogate=surrogate).double()  # p = 0.6
    positive = targets.numpy() == 1
    best = 0.0
    for threshold in outputs.numpy():
        chosen = outputs.numpy() >= threshold
        if (chosen & positive).sum() >= 0.6 * chosen.sum():
            best = max(best, (chosen & positive).sum() / positive.sum())
    values = []
    for threshold in np.linspace(-6, 8, 200):
        loss.thresholds.data.fill_(threshold)
        worst = []
        for multiplier in (0.0, 1e6):  # it is linear in the multiplier, so one of its ends is the largest
            loss.duals.data.fill_(multiplier)
            worst.append(loss(outputs, targets).item())
        values.append(max(worst))
    assert best > 0
    assert 1 - best <= min(values) < 10  # some threshold keeps the constraint: no multiplier drives it up


def test_a_step_downhill_takes_multipliers_uphill_and_all_else_downhill():
    outputs, targets = drawn(2, 30, 3)
    loss = AUCPRLoss(3, anchors=4, dual_rate=0.5).double()
    slopes = torch.autograd.grad(loss(outputs, targets), (loss.thresholds, loss.duals))

    def slope(of):
        moved, size = copy.deepcopy(loss), 1e-6
        getattr(moved, of).data[1, 2] += size
        return (moved(outputs, targets) - loss(outputs, targets)).item() / size

    assert slopes[0][1, 2].item() == pytest.approx(slope("thresholds"), abs=1e-5)
    assert slopes[1][1, 2].item() == pytest.approx(-0.5 * slope("duals"), abs=1e-5)
    assert torch.autograd.gradcheck(lambda given: loss(given, targets), outputs.requires_grad_())


def test_an_ordinary_training_loop_raises_average_precision_and_keeps_multipliers_from_going_negative():
    x, targets = rare_positives()
    net, loss = nn.Linear(4, 1), AUCPRLoss(2, shares=torch.tensor([0.9, 0.1]))
    net.weight.data, net.bias.data = torch.tensor([[0.2, 1.0, 0.0, 0.0]]), torch.zeros(1)
    before = average_precision_score(targets, net(x).detach())
    optimizer = torch.optim.Adam([*net.parameters(), *loss.parameters()], lr=0.05)
    generator = torch.Generator().manual_seed(0)
    for _ in range(200):
        rows = torch.randint(len(x), (200,), generator=generator)
        value = loss(net(x[rows]), targets[rows])
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    assert average_precision_score(targets, net(x).detach()) > before + 0.2
    assert bool((loss.multipliers >= 0).all()) and not torch.equal(loss.multipliers, torch.ones(1, 20))


def test_classes_without_examples_are_left_out_unless_their_share_is_known():
    outputs = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor([0, 1, 0, 1, 0, 1])
    with torch.no_grad():
        alone = AUCPRLoss(3)(outputs, targets)
        known = AUCPRLoss(3, shares=torch.tensor([0.4, 0.4, 0.2]))(outputs, targets)
    assert bool(alone.isfinite()) and bool(known.isfinite()) and float(alone) != float(known)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"classes": 1}, "classes=1"),
        ({"classes": 2, "anchors": 0}, "anchors=0"),
        ({"classes": 2, "precision_range": (0.9, 0.5)}, r"\(0.9, 0.5\)"),
        ({"classes": 3, "shares": torch.tensor([0.5, 0.5])}, r"\[0.5, 0.5\]; expected 3"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(DataError, match=message):
        AUCPRLoss(**settings)


def test_outputs_of_another_number_of_classes_are_refused():
    with pytest.raises(DataError, match="of 3 classes, the loss of 2"):
        AUCPRLoss(2)(torch.zeros(4, 3), torch.tensor([0, 1, 2, 0]))
