"""Losses of a detector's second stage, on the proposals it keeps: the one it was trained with, and one that is AP.

Both are functions of what `metricopt.adapters.detector.detect` gives of each image: `proposals`, `class_logits` and
`box_deltas`, beside the targets in torchvision's layout (`boxes`, `labels`).
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from metricopt.core.errors import DataError
from metricopt.losses.blackbox_rank import blackbox_ap

Outputs = Sequence[Mapping[str, Tensor]]

_ENOUGH = 0.5  # overlap of a proposal with the box that it is of
_WEIGHTS = (10.0, 10.0, 5.0, 5.0)  # of a correction's parts, as in torchvision
_BEND = 1 / 9  # where the loss of a correction goes from square to straight, as in torchvision


def box_loss(output: Outputs, targets: Outputs) -> Tensor:
    """Cross-entropy of the classes of proposals and smooth L1 of the boxes of those that are of an object.

    As torchvision's Faster R-CNN is trained by, but on the proposals that it keeps when it is used, all of them.

    Example:
        >>> box = torch.tensor([[0.0, 0, 10, 10]])
        >>> sure = {"proposals": box, "class_logits": torch.tensor([[-9.0, 9.0]]), "box_deltas": torch.zeros(1, 8)}
        >>> round(float(box_loss([sure], [{"boxes": box, "labels": torch.tensor([1])}])), 4)
        0.0
    """
    labels, logits, straight = [], [], []
    for found, truth in zip(output, targets, strict=True):
        label, wanted = assigned(found["proposals"], truth)
        mine = label > 0
        deltas = found["box_deltas"].reshape(len(label), -1, 4)[mine, label[mine]]
        labels.append(label)
        logits.append(found["class_logits"])
        straight.append(functional.smooth_l1_loss(deltas, wanted[mine], beta=_BEND, reduction="sum"))
    every = torch.cat(labels)
    classes = functional.cross_entropy(torch.cat(logits), every)
    return classes + torch.stack(straight).sum() / max(1, len(every))


def ap_loss(output: Outputs, targets: Outputs, *, lam: float = 0.5, margin: float = 0.1) -> Tensor:
    """1 - average precision of proposals by the logit of their class, differentiated through its ranks.

    Rolínek et al. 2020: precision at a positive is its rank among positives over its rank among all; ranks are
    differentiated as a black box. Positives are pushed by a margin: half of it is taken from their scores and given to
    the others'. For each class that has true boxes, over all proposals of the batch; how they are matched, `lam` and
    `margin` for detection are ours, for no source tells.

    Args:
        output: What a detector gives of each image.
        targets: True boxes and labels.
        lam: How far the interpolation of ranks reaches, in the authors' units, in which ranks go from 0 to 1, for each
            proposal: an image has hundreds, and few of them are positive.
        margin: In units of logits.

    Example:
        >>> boxes = torch.tensor([[0.0, 0, 10, 10], [50.0, 50, 60, 60]])
        >>> found = {"proposals": boxes, "class_logits": torch.tensor([[0.0, 3.0], [0.0, -3.0]])}
        >>> float(ap_loss([found], [{"boxes": boxes[:1], "labels": torch.tensor([1])}]))
        0.0
    """
    labels = torch.cat([assigned(found["proposals"], truth)[0] for found, truth in zip(output, targets, strict=True)])
    # Against the other classes, as probabilities are: a shift of all logits of a proposal changes nothing.
    scores = torch.cat([found["class_logits"] for found in output])
    scores = scores.log_softmax(1) - torch.log1p(-scores.softmax(1).clamp(max=1 - 1e-6))
    present = [label for label in range(1, scores.shape[1]) if bool((labels == label).any())]
    if not present:
        return scores.sum() * 0.0
    each = [blackbox_ap(scores[:, k], labels == k, lam=lam * len(scores), margin=margin) for k in present]
    return 1 - torch.stack(each).mean()


def assigned(proposals: Tensor, truth: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Class of each proposal, 0 for the background, and the correction that would make it the true box.

    Example:
        >>> boxes = torch.tensor([[0.0, 0, 10, 10], [50.0, 50, 60, 60]])
        >>> assigned(boxes, {"boxes": boxes[:1], "labels": torch.tensor([2])})[0].tolist()
        [2, 0]
    """
    boxes, labels = truth["boxes"].to(proposals), truth["labels"].to(proposals.device)
    if not len(boxes):
        return labels.new_zeros(len(proposals)), torch.zeros_like(proposals)
    if boxes.shape[-1:] != (4,):
        raise DataError(f"true boxes have shape {tuple(boxes.shape)}; expected (boxes, 4), corners of each")
    overlap, nearest = overlaps(proposals, boxes).max(1)
    label = torch.where(overlap >= _ENOUGH, labels[nearest], 0)
    return label, _corrections(proposals, boxes[nearest])


def overlaps(one: Tensor, other: Tensor) -> Tensor:
    """Shared area over the area of both, for each pair of boxes, (n, m).

    Example:
        >>> overlaps(torch.tensor([[0.0, 0, 2, 2]]), torch.tensor([[0.0, 0, 2, 1]])).item()
        0.5
    """
    low, high = torch.maximum(one[:, None, :2], other[:, :2]), torch.minimum(one[:, None, 2:], other[:, 2:])
    shared = (high - low).clamp_min(0).prod(-1)
    areas = [(box[:, 2:] - box[:, :2]).prod(-1) for box in (one, other)]
    return shared / (areas[0][:, None] + areas[1] - shared).clamp_min(1e-12)


def _corrections(proposals: Tensor, boxes: Tensor) -> Tensor:
    """What a detector's second stage is to say of each proposal: moves in its sizes, and logarithms of ratios."""
    size, wanted = proposals[:, 2:] - proposals[:, :2], boxes[:, 2:] - boxes[:, :2]
    moved = (boxes[:, :2] + wanted / 2 - proposals[:, :2] - size / 2) / size
    return torch.cat([moved, (wanted / size).log()], 1) * proposals.new_tensor(_WEIGHTS)
