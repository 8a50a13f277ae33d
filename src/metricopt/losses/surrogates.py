"""What losses about the order of scores share: stand-ins for counting a mistake, and each class against the rest."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from metricopt.losses.named import classes_of, membership, two_columns

Surrogate = Callable[[Tensor], Tensor]
"""Stand-in for "the gap is not above 0", elementwise: at least 1 where that is so, at least 0 elsewhere."""

Scores = Callable[[Tensor], Tensor]
"""From logits to one score for each class, (n, classes), by which examples are ranked."""


def logistic(gap: Tensor) -> Tensor:
    """log2(1 + exp(-gap)); in base 2, so that it is 1 at gap 0 and never below the mistake it stands for.

    Example:
        >>> logistic(torch.tensor([0.0, 20.0])).round(decimals=4).tolist()
        [1.0, 0.0]
    """
    return functional.softplus(-gap) / math.log(2)


def hinge(gap: Tensor) -> Tensor:
    """max(0, 1 - gap).

    Example:
        >>> hinge(torch.tensor([-1.0, 0.0, 3.0])).tolist()
        [2.0, 1.0, 0.0]
    """
    return (1 - gap).clamp(min=0)


def log_odds(outputs: Tensor) -> Tensor:
    """Each class against the rest, (n, classes): log p / (1 - p) of its probability p by the softmax.

    It ranks examples as the probability does, but does not saturate; of two columns it is their difference.

    Example:
        >>> log_odds(torch.tensor([3.0, -100.0])).tolist()
        [[-3.0, 3.0], [100.0, -100.0]]
    """
    columns = two_columns(outputs)
    if columns.shape[1] == 2:
        return columns - columns.flip(1)
    top = membership(columns.argmax(1), columns.shape[1])
    total = columns.logsumexp(1, keepdim=True)
    # The rest of the largest class is summed up by itself: 1 - p would cancel to 0. All other p are at most 1/2.
    beside_top = columns.masked_fill(top, -torch.inf).logsumexp(1, keepdim=True)
    share = (columns - total).exp().masked_fill(top, 0)
    return columns - torch.where(top, beside_top, total + torch.log1p(-share))


def raw_logits(outputs: Tensor) -> Tensor:
    """Each class by its logit as it is, (n, classes), for metrics that rank by logits.

    Example:
        >>> raw_logits(torch.tensor([[3.0, 1.0, 2.0]])).tolist()
        [[3.0, 1.0, 2.0]]
    """
    return two_columns(outputs)


class Pairs(NamedTuple):
    """Each example against all others, by the score of its own class.

    An example is a positive of one class only, so (n, n) pairs hold every class against the rest.

    Attributes:
        gaps: How far the first example's score is above the second's, (n, n).
        apart: Whether the second is of another class, (n, n).
        peers: Examples of the first one's class, itself included, (n,).
    """

    gaps: Tensor
    apart: Tensor
    peers: Tensor


def pairs(outputs: Tensor, targets: Tensor, scores: Scores = log_odds) -> Pairs:
    """Pairs of the examples of a batch, by the scores of classes.

    Example:
        >>> found = pairs(torch.tensor([2.0, 0.5]), torch.tensor([1, 0]))
        >>> found.gaps.tolist(), found.apart.tolist()
        ([[0.0, 1.5], [1.5, 0.0]], [[False, True], [True, False]])
    """
    classes = classes_of(outputs, targets)
    each = scores(outputs).T[classes]  # (n, n): of the second example, for the class of the first
    apart = classes.unsqueeze(1) != classes
    return Pairs(each.diagonal().unsqueeze(1) - each, apart, (~apart).sum(1))
