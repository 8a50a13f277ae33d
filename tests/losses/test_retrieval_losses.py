"""FastAP and the Recall loss against another library, plain loops and the interpolation that defines their gradient."""

import math

import pytest
import torch

from metricopt.core.errors import DataError
from metricopt.losses import blackbox_rank, fast_ap, recall


def batch(seed=0, n=24, dim=5, classes=6):
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(n, dim, generator=draw, dtype=torch.float64), torch.randint(classes, (n,), generator=draw)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("bins", [1, 10, 25])
def test_fast_ap_and_its_gradient_are_those_of_pytorch_metric_learning(seed, bins):
    losses = pytest.importorskip("pytorch_metric_learning.losses")
    outputs, targets = batch(seed)
    ours, theirs = (outputs.clone().requires_grad_() for _ in range(2))
    one, other = fast_ap(ours, targets, bins=bins), losses.FastAPLoss(num_bins=bins)(theirs, targets)
    torch.testing.assert_close(one, other, atol=1e-6, rtol=0)
    one.backward(), other.backward()
    torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-6, rtol=0)


def test_fast_ap_is_that_of_plain_loops():
    outputs, targets = batch(n=9, classes=3)
    unit = outputs / outputs.norm(dim=1, keepdim=True)
    queries = []
    for q in range(9):
        own = [j for j in range(9) if j != q and targets[j] == targets[q]]
        if not own:
            continue
        histogram, histogram_own = [0.0] * 11, [0.0] * 11
        for j in range(9):
            distance = float((unit[q] - unit[j]).square().sum())
            for edge in range(11):
                share = max(0.0, 1 - abs(distance - 0.4 * edge) / 0.4) if j != q else 0.0
                histogram[edge] += share
                histogram_own[edge] += share if j in own else 0.0
        average = sum(
            histogram_own[j] * sum(histogram_own[: j + 1]) / sum(histogram[: j + 1])
            for j in range(11)
            if sum(histogram[: j + 1]) > 0
        )
        queries.append(1 - average / len(own))
    assert float(fast_ap(outputs, targets)) == pytest.approx(sum(queries) / len(queries), abs=1e-9)


@pytest.mark.parametrize("weight", ["log", "log_log"])
@pytest.mark.parametrize("margin", [0.0, 0.1])
def test_recall_is_that_of_plain_loops(weight, margin):
    outputs, targets = batch(seed=1)
    unit = outputs / outputs.norm(dim=1, keepdim=True)
    cosine = (unit @ unit.T).tolist()
    queries = []
    for q in range(24):
        own = [j for j in range(24) if j != q and targets[j] == targets[q]]
        strangers = [cosine[q][j] + margin / 2 for j in range(24) if targets[j] != targets[q]]
        each = [math.log1p(sum(s > cosine[q][j] - margin / 2 for s in strangers)) for j in own]
        each = [math.log1p(value) for value in each] if weight == "log_log" else each
        queries += [sum(each) / len(each)] if own else []
    found = float(recall(outputs, targets, margin=margin, weight=weight))
    assert found == pytest.approx(sum(queries) / len(queries), abs=1e-9)


@pytest.mark.parametrize("lam", [0.1, 1.0, 10.0])
def test_the_gradient_of_ranks_is_the_slope_to_where_the_incoming_gradient_points(lam):
    draw = torch.Generator().manual_seed(2)
    scores, slope = (torch.randn(4, 7, generator=draw, dtype=torch.float64) for _ in range(2))
    scores.requires_grad_()
    ranks = blackbox_rank(scores, lam)
    ranks.backward(slope)
    moved = scores.detach() + lam * slope
    for row in range(4):
        before = [1 + sum(b > a for b in scores[row].tolist()) for a in scores[row].tolist()]
        after = [1 + sum(b > a for b in moved[row].tolist()) for a in moved[row].tolist()]
        assert ranks[row].tolist() == before
        expected = [(a - b) / lam for a, b in zip(after, before, strict=True)]
        assert scores.grad[row].tolist() == pytest.approx(expected)


def test_descending_the_recall_loss_brings_look_alikes_together():
    draw = torch.Generator().manual_seed(0)
    targets = torch.arange(40) % 10
    outputs = torch.randn(40, 8, generator=draw).requires_grad_()
    optimizer = torch.optim.Adam([outputs], lr=0.05)
    before = float(recall(outputs.detach(), targets))
    for _ in range(100):
        optimizer.zero_grad()
        recall(outputs, targets).backward()
        optimizer.step()
    assert float(recall(outputs.detach(), targets)) < 0.2 * before


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda z, y: recall(z, y, lam=0.0), "lam is 0.0"),
        (lambda z, y: recall(z, y, margin=-1.0), "margin is -1.0"),
        (lambda z, y: fast_ap(z, y, bins=0), "bins is 0"),
        (lambda z, y: fast_ap(z[:, :1], y), "expected embeddings"),
    ],
)
def test_settings_without_meaning_are_refused(call, said):
    with pytest.raises(DataError, match=said):
        call(*batch())
