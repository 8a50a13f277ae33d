"""Losses of a detector's second stage against plain loops, torchvision's rule and finite differences."""

import math

import pytest
import torch
from torch.nn import functional

from metricopt.losses.blackbox_rank import blackbox_rank
from metricopt.losses.boxes import ap_loss, assigned, box_loss, overlaps

BOXES = torch.tensor([[0.0, 0, 10, 10], [20.0, 20, 34, 30], [50.0, 5, 60, 25]])


def drawn(seed, count=12):
    """Proposals near true boxes and elsewhere, with logits of two classes and the background."""
    draw = torch.Generator().manual_seed(seed)
    near = BOXES[torch.randint(3, (count // 2,), generator=draw)] + torch.randn(count // 2, 4, generator=draw)
    far = torch.rand(count - count // 2, 2, generator=draw) * 60
    proposals = torch.cat([near, torch.cat([far, far + 8], 1)])
    logits, deltas = torch.randn(count, 3, generator=draw), 0.3 * torch.randn(count, 12, generator=draw)
    found = {"proposals": proposals, "class_logits": logits, "box_deltas": deltas}
    return found, {"boxes": BOXES, "labels": torch.tensor([1, 2, 1])}


def overlap(a, b):
    sides = [max(0.0, min(a[2 + k], b[2 + k]) - max(a[k], b[k])) for k in (0, 1)]
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return sides[0] * sides[1] / (sum(areas) - sides[0] * sides[1])


def test_overlaps_are_those_of_plain_loops():
    found, truth = drawn(0)
    expected = [[overlap(a, b) for b in truth["boxes"].tolist()] for a in found["proposals"].tolist()]
    torch.testing.assert_close(overlaps(found["proposals"], truth["boxes"]), torch.tensor(expected))


def test_the_box_loss_is_torchvisions_of_all_proposals():
    found, truth = drawn(1)
    labels, pull = [], 0.0
    for place, box in enumerate(found["proposals"].tolist()):
        near = [overlap(box, other) for other in truth["boxes"].tolist()]
        best = max(range(3), key=lambda k: near[k])
        label = int(truth["labels"][best]) if near[best] >= 0.5 else 0
        labels.append(label)
        if label:
            (x, y, x1, y1), (a, b, a1, b1) = box, truth["boxes"][best].tolist()
            wide, high = x1 - x, y1 - y
            wanted = [
                10 * ((a + a1) / 2 - (x + x1) / 2) / wide,
                10 * ((b + b1) / 2 - (y + y1) / 2) / high,
                5 * math.log((a1 - a) / wide),
                5 * math.log((b1 - b) / high),
            ]
            said = found["box_deltas"][place, 4 * label : 4 * label + 4]
            pull += float(functional.smooth_l1_loss(said, torch.tensor(wanted), beta=1 / 9, reduction="sum"))
    expected = float(functional.cross_entropy(found["class_logits"], torch.tensor(labels))) + pull / len(labels)
    assert float(box_loss([found], [truth])) == pytest.approx(expected, rel=1e-5)


def ap_by_loops(found, truth, margin):
    """1 - AP in the mean over classes, by counting."""
    labels = assigned(found["proposals"], truth)[0]
    probabilities = found["class_logits"].double().softmax(1)
    values = []
    for label in sorted({int(each) for each in labels if each}):
        scores = (probabilities[:, label] / (1 - probabilities[:, label])).log()
        scores = [float(s) - margin * (0.5 if own == label else -0.5) for s, own in zip(scores, labels, strict=True)]
        mine = [s for s, own in zip(scores, labels, strict=True) if own == label]
        values.append(sum(sum(o >= s for o in mine) / sum(o >= s for o in scores) for s in mine) / len(mine))
    return 1 - sum(values) / len(values)


@pytest.mark.parametrize("seed", range(10))
def test_the_ap_loss_is_one_minus_average_precision_of_plain_loops(seed):
    found, truth = drawn(seed)
    assert float(ap_loss([found], [truth], margin=0.2)) == pytest.approx(ap_by_loops(found, truth, 0.2), abs=1e-5)


def test_its_gradient_is_the_slope_of_its_own_forward_over_the_reach_of_lam():
    scores = torch.tensor([2.0, 1.0, 0.5, -1.0], requires_grad=True)
    slope = torch.tensor([0.3, -0.7, 0.2, 0.9])
    (blackbox_rank(scores, 2.0) * slope).sum().backward()
    ahead = blackbox_rank(scores.detach() + 2.0 * slope, 2.0)
    torch.testing.assert_close(scores.grad, (ahead - blackbox_rank(scores.detach(), 2.0)) / 2.0)


def test_following_the_ap_loss_raises_average_precision():
    found, truth = drawn(3, count=30)
    logits = found["class_logits"].clone().requires_grad_()
    optimizer = torch.optim.Adam([logits], lr=0.1)
    before = ap_by_loops({**found, "class_logits": logits.detach()}, truth, 0.0)
    for _ in range(100):
        optimizer.zero_grad()
        ap_loss([{**found, "class_logits": logits}], [truth]).backward()
        optimizer.step()
    assert ap_by_loops({**found, "class_logits": logits.detach()}, truth, 0.0) < 0.5 * before


def test_images_without_objects_have_a_loss_too():
    found, _ = drawn(4)
    empty = {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0).long()}
    assert bool(box_loss([found], [empty]).isfinite()) and float(ap_loss([found], [empty])) == 0.0
