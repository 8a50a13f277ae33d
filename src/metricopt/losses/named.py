"""The registry of surrogate losses, and the shapes they share."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from metricopt.core.errors import DataError
from metricopt.core.registry import Registry

Loss = Callable[[Tensor, Tensor], Tensor]
"""`loss(outputs, targets)`: a scalar, differentiable in the outputs, safe under `torch.func.vmap` and `grad`."""

LOSSES: Registry[Loss] = Registry("loss")
"""Losses by name, ready to call."""


def two_columns(outputs: Tensor) -> Tensor:
    """Logits with one column a class, (n, classes); a single logit z stands for the two columns (0, z).

    Example:
        >>> two_columns(torch.tensor([3.0, -1.0])).tolist()
        [[0.0, 3.0], [0.0, -1.0]]
    """
    if is_single(outputs):
        logit = outputs.reshape(-1)
        return torch.stack([torch.zeros_like(logit), logit], dim=1)
    return outputs


def is_single(outputs: Tensor) -> bool:
    """Whether the model gives one logit an example, (n,) or (n, 1).

    Example:
        >>> is_single(torch.zeros(4)), is_single(torch.zeros(4, 1)), is_single(torch.zeros(4, 2))
        (True, True, False)
    """
    return outputs.ndim == 1 or (outputs.ndim == 2 and outputs.shape[1] == 1)


def margin(outputs: Tensor, *, loss: str) -> Tensor:
    """How far a two-class model leans to class 1, (n,): its logit, or the difference of its two.

    Example:
        >>> margin(torch.tensor([[1.0, 3.0]]), loss="hinge").tolist()
        [2.0]
    """
    if is_single(outputs):
        return outputs.reshape(-1)
    if outputs.shape[1] != 2:
        raise DataError(
            f"{loss} met {outputs.shape[1]} output columns; it is about two classes: use lovasz_softmax instead"
        )
    return outputs[:, 1] - outputs[:, 0]


def classes_of(outputs: Tensor, targets: Tensor) -> Tensor:
    """Targets as class numbers, (n,) int64, one for each row of the outputs.

    Example:
        >>> classes_of(torch.zeros(2, 3), torch.tensor([[2.0], [0.0]])).tolist()
        [2, 0]
    """
    n = len(outputs)
    if outputs.ndim not in (1, 2) or targets.shape not in ((n,), (n, 1)):
        raise DataError(
            f"outputs {tuple(outputs.shape)} and targets {tuple(targets.shape)} do not go together; expected (n,), "
            f"(n, 1) or (n, classes) and (n,): give one class number for each example"
        )
    return targets.reshape(n).long()


def membership(classes: Tensor, count: int) -> Tensor:
    """Whether each example is of each class, (n, count).

    Example:
        >>> membership(torch.tensor([1, 0]), 2).tolist()
        [[False, True], [True, False]]
    """
    return classes.unsqueeze(1) == torch.arange(count, device=classes.device)


def example_losses(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of each example, (n,).

    Example:
        >>> example_losses(torch.zeros(2), torch.tensor([0, 1])).exp().round(decimals=4).tolist()
        [2.0, 2.0]
    """
    classes = classes_of(outputs, targets)
    if is_single(outputs):
        logit = outputs.reshape(-1)
        return functional.binary_cross_entropy_with_logits(logit, classes.to(logit.dtype), reduction="none")
    return functional.cross_entropy(outputs, classes, reduction="none")
