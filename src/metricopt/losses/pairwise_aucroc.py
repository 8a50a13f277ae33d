"""Pairwise ranking loss for the area under the ROC curve (Rakotomamonjy 2004)."""

from torch import Tensor

from metricopt.losses.named import LOSSES
from metricopt.losses.surrogates import Scores, Surrogate, log_odds, logistic, pairs


def pairwise_aucroc(
    outputs: Tensor, targets: Tensor, *, surrogate: Surrogate = logistic, scores: Scores = log_odds
) -> Tensor:
    """Surrogate of one minus the area under the ROC curve: the mean over pairs of a positive and a negative.

    The area is the share of pairs in which the positive scores higher. With s the log odds of class c,

        mean over classes c of  mean over i of class c, j of another:  surrogate(s_i - s_j).

    Classes without examples are left out; of two classes both have the same pairs. Where there is only one class there
    are no pairs, and the loss is 0. A batch of n examples takes n * n numbers.

    Args:
        outputs: Logits.
        targets: Class numbers.
        surrogate: Loss of a pair by the gap of its scores: `logistic`, `hinge` (the original), or your own.
        scores: How examples are ranked for a class: `log_odds`, as by its probability, or `raw_logits`.

    Example:
        >>> import torch
        >>> from metricopt.losses import hinge
        >>> float(pairwise_aucroc(torch.tensor([2.0, 1.5, 0.0]), torch.tensor([1, 0, 0]), surrogate=hinge))
        0.25
    """
    found = pairs(outputs, targets, scores)
    negatives = found.apart.sum(1)
    each = (surrogate(found.gaps) * found.apart).sum(1) / negatives.clamp(min=1)
    weight = 1 / found.peers.to(each.dtype)  # sums to 1 over the examples of a class
    return (weight * each).sum() / weight.sum()


# Called, not decorating: the registry's decorator would hide the function's own arguments from type checkers.
LOSSES.add("pairwise_aucroc")(pairwise_aucroc)
