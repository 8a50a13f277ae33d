"""Losses for the area under the precision-recall curve, after Eban et al. (2017).

Their objective is a sum over anchors on the curve. At each, a rate is as good as a threshold of its own allows while
another rate is held, and surrogates bound the counts: false positives from above, true positives from below.
"""

import torch
from torch import Tensor, nn

from metricopt.core.errors import DataError
from metricopt.losses.named import LOSSES, classes_of, margin, membership, two_columns
from metricopt.losses.surrogates import Scores, Surrogate, log_odds, logistic, pairs


def aucpr(outputs: Tensor, targets: Tensor, *, surrogate: Surrogate = logistic, scores: Scores = log_odds) -> Tensor:
    """Upper bound on one minus average precision, with the thresholds found in the batch itself: it has no state.

    Anchors are all levels of recall that the batch has: k / P for its P positives. The largest threshold that reaches
    one is the score s_i of a positive, and there the recall is exact, so nothing is left to hold by a multiplier:

        1 - mean over positives i of  T_i / (T_i + sum over negatives j of surrogate(s_i - s_j)),

    with T_i the positives that score at least s_i. Precision falls with the false positives, which the surrogate
    bounds, so this is never below one minus average precision; with a step as surrogate it is that.

    Of two classes it is about class 1, as the metric "aucpr"; of more it is the mean over the classes present, each
    against the rest by its log odds, as "aucpr_macro". Without positives or negatives it is 0. A batch of n examples
    takes n * n numbers; the smaller the batch, the coarser the curve.

    Args:
        outputs: Logits.
        targets: Class numbers.
        surrogate: Bound on a false positive by the gap from its score up to the positive's: `logistic` or `hinge`.
        scores: How examples are ranked for a class: `log_odds`, as by its probability, or `raw_logits`.

    Example:
        >>> from metricopt.losses import hinge
        >>> float(aucpr(torch.tensor([3.0, 1.5, 1.0]), torch.tensor([1, 0, 1]), surrogate=hinge))
        0.21428...
    """
    found = pairs(outputs, targets, scores)
    hits = ((found.gaps <= 0) & ~found.apart).sum(1)
    alarms = (surrogate(found.gaps) * found.apart).sum(1)
    weight = 1 / found.peers.to(alarms.dtype)  # sums to 1 over the examples of a class
    if two_columns(outputs).shape[1] == 2:
        weight = weight * (classes_of(outputs, targets) == 1)
    return (weight * alarms / (hits + alarms)).sum() / weight.sum().clamp(min=1)


# Called, not decorating: the registry's decorator would hide the function's own arguments from type checkers.
LOSSES.add("aucpr")(aucpr)


class AUCPRLoss(nn.Module):
    r"""Eban's AUCPR loss with its own variables: a threshold b and a multiplier lambda for each class and anchor.

    Anchors p are levels of precision, evenly spread inside `precision_range`; at each, recall is maximised subject to
    precision >= p. With l+ and l- the surrogates' sums over positives and negatives, divided by the positives' number,

        (1 + lambda (1 - p)) l+(s - b) + lambda p l-(b - s) - lambda (1 - p),

    averaged over anchors and classes. Network and thresholds minimise it, multipliers maximise it: their gradient is
    reversed here, so one ordinary optimizer does for all. Give it `[*net.parameters(), *loss.parameters()]`, without
    weight decay on the latter. The value may be negative, and need not fall while the multipliers grow: watch the
    metric. To finetune phi use `aucpr`, which has no variables.

    Of two classes it is about class 1; of more, about each against the rest by its log odds.

    Args:
        classes: Number of classes; 2 also for a single logit.
        anchors: Points on the curve.
        precision_range: Between which levels of precision the area is taken.
        shares: Share of each class in the data; those of the batch if None, which biases the loss of small batches.
            Of two classes, the share of class 1 is `shares[1]`.
        dual_rate: Speed of the multipliers compared with everything else.
        surrogate: Bound on a mistake, `logistic` or `hinge`.

    Attributes:
        thresholds: b, (classes, anchors), or (1, anchors) for two classes.
        duals: The multipliers up to their sign, of the same shape.

    Example:
        >>> net, loss = nn.Linear(1, 1), AUCPRLoss(2)
        >>> optimizer = torch.optim.Adam([*net.parameters(), *loss.parameters()])
        >>> loss(net(torch.tensor([[1.0], [0.0], [-1.0]])), torch.tensor([1, 0, 0])).backward()
        >>> optimizer.step()
        >>> loss.thresholds.shape
        torch.Size([1, 20])
    """

    precisions: Tensor
    shares: Tensor | None

    def __init__(
        self,
        classes: int,
        *,
        anchors: int = 20,
        precision_range: tuple[float, float] = (0.0, 1.0),
        shares: Tensor | None = None,
        dual_rate: float = 0.1,
        surrogate: Surrogate = logistic,
    ) -> None:
        super().__init__()
        low, high = precision_range
        if classes < 2 or anchors < 1 or not 0 <= low < high <= 1:
            raise DataError(
                f"classes={classes}, anchors={anchors} and precision_range={precision_range} were given; expected 2 "
                f"classes or more, an anchor or more, and a range within 0 and 1"
            )
        if shares is not None and (shares.shape != (classes,) or not bool((shares > 0).all())):
            raise DataError(f"shares are {shares.tolist()}; expected {classes} numbers above 0, one each class")
        self.classes, self.dual_rate, self.surrogate = classes, dual_rate, surrogate
        columns = 1 if classes == 2 else classes
        self.register_buffer("precisions", torch.linspace(low, high, anchors + 2)[1:-1])
        self.register_buffer("shares", None if shares is None else shares[-columns:].to(self.precisions))
        self.thresholds = nn.Parameter(torch.zeros(columns, anchors))
        self.duals = nn.Parameter(torch.ones(columns, anchors))

    @property
    def multipliers(self) -> Tensor:
        """lambda, never negative, of the shape of the thresholds."""
        return self.duals.abs()

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The Lagrangian on a batch, averaged over anchors and the classes present, a scalar."""
        scores, positive = self._columns(outputs, targets)
        gaps = scores.unsqueeze(2) - self.thresholds  # (n, columns, anchors)
        share = positive.mean(0) if self.shares is None else self.shares  # (columns,)
        present = share > 0
        scale = (1 / share.where(present, 1.0)).unsqueeze(1)
        missed = scale * (positive.unsqueeze(2) * self.surrogate(gaps)).mean(0)  # l+, (columns, anchors)
        alarms = scale * ((1 - positive).unsqueeze(2) * self.surrogate(-gaps)).mean(0)  # l-
        p, multiplier = self.precisions, _ascending(self.multipliers, self.dual_rate)
        each = missed + multiplier * ((1 - p) * (missed - 1) + p * alarms)
        return (each.mean(1) * present).sum() / present.sum().clamp(min=1)

    def _columns(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Score of each example in each class it is about, and whether it is of that class, (n, columns)."""
        columns = two_columns(outputs).shape[1]
        if columns != self.classes:
            raise DataError(f"the outputs are of {columns} classes, the loss of {self.classes}: make it for {columns}")
        member = membership(classes_of(outputs, targets), columns).to(outputs.dtype)
        if columns == 2:
            return margin(outputs, loss="AUCPRLoss").unsqueeze(1), member[:, 1:]
        return log_odds(outputs), member


def _ascending(value: Tensor, rate: float) -> Tensor:
    """The value itself, but with the gradient times minus `rate`: a step downhill takes it uphill."""
    return (1 + rate) * value.detach() - rate * value
