"""Cross-entropy, plain and with weights that follow the classes."""

import functools

from torch import Tensor

from metricopt.core.errors import DataError
from metricopt.losses.named import LOSSES, Loss, classes_of, example_losses, margin, membership, two_columns


@LOSSES.add("cross_entropy")
def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy: of the sigmoid for single logits, of the softmax for one column a class.

    Example:
        >>> import torch
        >>> loss = cross_entropy(torch.tensor([0.0, 0.0]), torch.tensor([0, 1]))
        >>> round(float(loss.exp()), 4)
        2.0
    """
    return example_losses(outputs, targets).mean()


@LOSSES.add("class_balanced")
def class_balanced(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy in which every class present in the batch counts the same: the mean of the classes' means.

    Example:
        >>> import torch
        >>> outputs, targets = torch.tensor([5.0, 5.0, 5.0, 5.0]), torch.tensor([1, 1, 1, 0])
        >>> bool(class_balanced(outputs, targets) > cross_entropy(outputs, targets))
        True
    """
    member = membership(classes_of(outputs, targets), two_columns(outputs).shape[1]).to(outputs.dtype)  # (n, classes)
    count = member.sum(0)
    share = member / count.clamp(min=1)  # the columns of classes present sum to 1
    return (share.sum(1) * example_losses(outputs, targets)).sum() / (count > 0).sum()


def cost_sensitive_f(t: float = 0.5, beta: float = 1.0) -> Loss:
    r"""Two-class cross-entropy whose minimiser has the best F-beta, if `t` is that best value (Parambath et al. 2014).

    With P the share of positives, fn and fp the shares of false negatives and false positives, tp = P - fn and

        F = (1 + beta^2) tp / ((1 + beta^2) tp + beta^2 fn + fp)
          = (1 + beta^2) (P - fn) / ((1 + beta^2) P - fn + fp).

    The denominator is positive, so F >= t exactly when, after multiplying out,

        (1 + beta^2 - t) fn + t fp  <=  (1 + beta^2) (1 - t) P.

    The right side does not depend on the classifier: if F-beta can reach t at all, whoever minimises the cost on the
    left does. Hence a false negative costs 1 + beta^2 - t and a false positive t. Both are divided by their sum,
    1 + beta^2: scale has no part in the argument, and t = (1 + beta^2) / 2 is then half the plain cross-entropy.

    Args:
        t: Value of F-beta aimed at, in [0, 1]; in practice several are tried.
        beta: How much more recall counts than precision.

    Example:
        >>> import torch
        >>> outputs, targets = torch.tensor([0.0, 0.0]), torch.tensor([1, 0])
        >>> loss = cost_sensitive_f(t=1.0)
        >>> bool(torch.isclose(loss(outputs, targets), example_losses(outputs, targets).mean() / 2))
        True
    """
    if not (0 <= t <= 1 and beta > 0):
        raise DataError(f"t={t} and beta={beta} were given; expected t, a value of F-beta, in [0, 1] and beta above 0")
    missed = (1 + beta**2 - t) / (1 + beta**2)
    return functools.partial(_cost_sensitive, missed=missed, alarmed=1 - missed)


def _cost_sensitive(outputs: Tensor, targets: Tensor, *, missed: float, alarmed: float) -> Tensor:
    logit = margin(outputs, loss="cost_sensitive_f")
    positive = (classes_of(outputs, targets) == 1).to(logit.dtype)
    cost = missed * positive + alarmed * (1 - positive)
    return (cost * example_losses(logit, targets)).mean()


LOSSES.add("cost_sensitive_f")(cost_sensitive_f())
