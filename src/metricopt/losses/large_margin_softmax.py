"""Large-margin softmax (Liu et al. 2016): cross-entropy that asks for an angle m times as small.

The logit of class j is |W_j| |x| cos(theta_j) for features x and the weights W_j of the last layer. For the true class
cos(theta) is replaced by psi(theta) <= cos(theta), which falls from 1 to 1 - 2m as the angle goes from 0 to pi.

Logits alone do not tell the angles: |W_j| |x| is needed as well. `LargeMarginSoftmax` knows the layer, and is told |x|
while the network is trained. When phi is finetuned, metrics see the same outputs as the loss does, so these must be
plain logits. There, and in `large_margin_softmax`, which knows no layer either, x is taken to be the part of the
features that the softmax can see: its components along the differences of the weights. Nothing else of x, and nothing
that all W_j have in common, changes a prediction. That part of x is a function of the logits, and the angles are exact
for it; those of the whole x are nearer to a right angle.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional

from metricopt.core.errors import DataError
from metricopt.losses.named import LOSSES, classes_of, is_single, membership, two_columns


def large_margin_softmax(outputs: Tensor, targets: Tensor, *, margin: int = 2, softening: float = 0.0) -> Tensor:
    """Large-margin softmax on logits alone: they are the features, and classes lie at the corners of a simplex.

    So the angle of class j is that between the logits, less their mean, and the direction in which logit j alone grows.
    For the angles of a network's own last layer use `LargeMarginSoftmax`. A single logit z stands for (-z/2, z/2); two
    classes leave only the angles 0 and pi, and then examples on the wrong side just count 2m - 1 times as far.

    Args:
        outputs: Logits.
        targets: Class numbers.
        margin: By how much the angle is multiplied (m); with 1 this is cross-entropy.
        softening: How much of the plain logit is mixed in (the paper's lambda); see `annealed`.

    Example:
        >>> outputs, targets = torch.tensor([[2.0, 0.0, -1.0]]), torch.tensor([0])
        >>> [round(float(large_margin_softmax(outputs, targets, margin=m)), 3) for m in (1, 2, 3)]
        [0.17, 0.219, 0.321]
    """
    classes = classes_of(outputs, targets)
    logits = _symmetric(outputs)
    visible = logits - logits.mean(1, keepdim=True)
    length = math.sqrt(1 - 1 / logits.shape[1]) * torch.linalg.vector_norm(visible, dim=1, keepdim=True)
    parts = visible, length.expand_as(logits)
    return _with_margin(logits, parts, classes, margin=_checked(margin), softening=softening)


# Called, not decorating: the registry's decorator would hide the function's own arguments from type checkers.
LOSSES.add("large_margin_softmax")(large_margin_softmax)


def margin_cosine(cosine: Tensor, margin: int) -> Tensor:
    """psi of an angle, by its cosine: (-1)^k cos(m theta) - 2k for theta between k pi / m and (k + 1) pi / m.

    Example:
        >>> margin_cosine(torch.tensor([1.0, 0.0, -1.0]), 2).tolist()
        [1.0, -1.0, -3.0]
    """
    before, multiple = torch.ones_like(cosine), cosine  # cos(0 theta), cos(1 theta)
    piece = torch.zeros_like(cosine)  # k
    for i in range(1, margin):
        before, multiple = multiple, 2 * cosine * multiple - before
        piece = piece + (cosine <= math.cos(i * math.pi / margin))
    return (1 - 2 * (piece % 2)) * multiple - 2 * piece


def annealed(step: int, *, start: float = 1000.0, rate: float = 1e-5, power: float = 45.0, least: float = 0.0) -> float:
    """Softening at a step of training: max(least, start * (1 + rate * step)^-power), the authors' for CIFAR-10.

    From a random start the plain margin seldom converges. Choose a rate with which little softening is left at the end
    of your steps; for hard data keep 5 or 10 of it.

    Example:
        >>> annealed(0), round(annealed(30_000), 4), annealed(30_000, least=5.0)
        (1000.0, 0.0075, 5.0)
    """
    return max(least, start * (1 + rate * step) ** -power)


@final
class LargeMarginSoftmax:
    """Large-margin softmax with the angles of a network's last layer, for training it and for finetuning phi.

    For training, let it watch the layer, which then adds |x| to its outputs as one more column while it is in training
    mode; the loss is exactly the paper's. On plain logits x is its part that the softmax can see, as explained at the
    head of this module, and the layer is a constant. A single logit z stands for (-z/2, z/2). Set `softening` anew as
    training goes on; see `annealed`.

    Args:
        layer: The layer that gives the logits; its weights are looked up at each call. A bias is added outside of the
            angle.
        margin: By how much the angle is multiplied (m), 2 to 4 in the paper.
        softening: How much of the plain logit is mixed in (the paper's lambda).

    Example:
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        >>> loss = LargeMarginSoftmax(net[2], margin=4)
        >>> x, targets = torch.ones(5, 4), torch.tensor([0, 1, 2, 0, 1])
        >>> with loss.watching():
        ...     loss(net(x), targets).backward()
        >>> bool(loss(net(x), targets) > functional.cross_entropy(net(x), targets))
        True
    """

    def __init__(self, layer: nn.Linear, *, margin: int = 2, softening: float = 0.0) -> None:
        self.layer, self.margin, self.softening = layer, _checked(margin), softening

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of a batch: outputs are logits (n, classes), or with |x| beside them (n, classes + 1)."""
        classes, units = classes_of(outputs, targets), self.layer.out_features
        columns = outputs.shape[1] if outputs.ndim == 2 else 1
        if columns not in (units, units + 1):
            raise DataError(
                f"the outputs have {columns} columns, the layer {units} units; expected {units} columns, or "
                f"{units + 1} from a watched layer: give the loss the layer that makes the network's outputs"
            )
        logits = _symmetric(outputs.reshape(len(outputs), columns)[:, :units])
        bias, weights = self._bias_and_weights()
        if columns == units:
            # Constants here: this is for finetuning phi, which leaves the layer as it is.
            parts = _visible(logits - bias.detach(), weights.detach())
        else:
            parts = logits - bias, outputs[:, units:] * torch.linalg.vector_norm(weights, dim=1)
        return _with_margin(logits, parts, classes, margin=self.margin, softening=self.softening)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within this context the layer, in training mode, gives the length of its inputs as one more column."""
        handle = self.layer.register_forward_hook(_with_length)
        try:
            yield
        finally:
            handle.remove()

    def _bias_and_weights(self) -> tuple[Tensor, Tensor]:
        """Bias (classes,) and weights (classes, features)."""
        weights = _symmetric(self.layer.weight.T).T
        bias = self.layer.bias
        return torch.zeros_like(weights[:, 0]) if bias is None else _symmetric(bias.unsqueeze(0))[0], weights


def _visible(products: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """W_j x and |W_j| |x|, both (n, classes), for W less its mean and x in its span."""
    weights = weights - weights.mean(0)
    products = products - products.mean(1, keepdim=True)
    # Less than a thousandth of the widest direction is not seen: dividing by it would blow up any shift of a logit.
    features = products @ torch.linalg.pinv(weights, rtol=1e-3).T  # (n, features)
    lengths = torch.linalg.vector_norm(features, dim=1, keepdim=True)
    return products, lengths * torch.linalg.vector_norm(weights, dim=1)


def _with_length(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    if not layer.training:
        return output
    return torch.cat([output, torch.linalg.vector_norm(inputs[0], dim=-1, keepdim=True)], dim=-1)


def _with_margin(
    logits: Tensor, parts: tuple[Tensor, Tensor], classes: Tensor, *, margin: int, softening: float
) -> Tensor:
    """Cross-entropy after |W| |x| cos(theta) of the true class has become |W| |x| psi(theta).

    Args:
        logits: (n, classes).
        parts: W_j x = |W_j| |x| cos(theta_j), without bias, and |W_j| |x|, both (n, classes).
        classes: (n,).
        margin: m.
        softening: lambda.
    """
    member = membership(classes, logits.shape[1])
    product, length = ((part * member).sum(1) for part in parts)
    # Logits that no x gives, such as those an output adapter has changed, may be longer than |W| |x|.
    length = torch.maximum(length, product.abs())
    cosine = product / length.where(length > 0, 1.0)
    change = (length * margin_cosine(cosine, margin) - product) / (1 + softening)
    return functional.cross_entropy(logits + member * change.unsqueeze(1), classes)


def _symmetric(outputs: Tensor) -> Tensor:
    """One column a class; a single one, z, stands for (-z/2, z/2)."""
    return two_columns(outputs) - outputs.reshape(-1, 1) / 2 if is_single(outputs) else outputs


def _checked(margin: int) -> int:
    if margin < 1:
        raise DataError(f"margin is {margin}; expected a whole number from 1, which is cross-entropy, up: 2 is common")
    return margin
