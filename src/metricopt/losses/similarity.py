"""What losses on embeddings share: cosines of all pairs of a batch, and which of them are of one class."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from metricopt.core.errors import DataError
from metricopt.losses.named import classes_of


class Similarities(NamedTuple):
    """Each example as a query against all others of its batch.

    Attributes:
        cosine: Of each pair, (n, n).
        alike: Whether both are of one class, and not the same example, (n, n).
        itself: Whether both are the same example, (n, n).
    """

    cosine: Tensor
    alike: Tensor
    itself: Tensor


def similarities(outputs: Tensor, targets: Tensor, *, loss: str) -> Similarities:
    """Pairs of a batch of embeddings (n, d), whatever their length.

    Example:
        >>> found = similarities(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([3, 3]), loss="fast_ap")
        >>> found.cosine.tolist(), found.alike.tolist()
        ([[1.0, 0.0], [0.0, 1.0]], [[False, True], [True, False]])
    """
    if outputs.ndim != 2 or outputs.shape[1] < 2:
        raise DataError(
            f"{loss} met outputs {tuple(outputs.shape)}; expected embeddings (n, d) of two dimensions or more: it is "
            f"about distances between examples"
        )
    classes = classes_of(outputs, targets)
    unit = functional.normalize(outputs, dim=1)
    itself = torch.eye(len(outputs), dtype=torch.bool, device=outputs.device)
    return Similarities(unit @ unit.T, (classes.unsqueeze(1) == classes) & ~itself, itself)


def mean_over_queries(values: Tensor, answerable: Tensor) -> Tensor:
    """Mean (n,) -> () over the examples that have another of their class in the batch; 0 if none has.

    Example:
        >>> mean_over_queries(torch.tensor([1.0, 3.0, 9.0]), torch.tensor([True, True, False])).item()
        2.0
    """
    return torch.where(answerable, values, 0.0).sum() / answerable.sum().clamp(min=1)
