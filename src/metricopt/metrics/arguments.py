"""Outputs, targets and groups of a population, brought to one shape before any metric sees them."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from metricopt.core.errors import MetricError
from metricopt.metrics.predictions import labels_of, scores_of


@dataclass(frozen=True)
class Cases:
    """What each member of a population predicts, beside what is true.

    Attributes:
        predictions: Labels, scores or raw outputs, (population, n, ...).
        targets: Truth, (population, n) or, if there are several targets an example, (population, n, ...).
        groups: Group numbers, (population, n), if there are any.
        sound: Whether a member's outputs are free of NaN and +inf, (population,).
    """

    predictions: Tensor
    targets: Tensor
    groups: Tensor | None
    sound: Tensor

    def arrays(self, member: int) -> list[np.ndarray]:
        """NumPy arrays `(y_true, prediction)`, and the groups if there are any, of one member."""
        parts = [self.targets[member], self.predictions[member]]
        if self.groups is not None:
            parts.append(self.groups[member])
        return [as_array(part) for part in parts]


def matched(outputs: Tensor, targets: Tensor, groups: Tensor | None, *, on: str) -> Cases:
    """Cases of a population, with shared targets and groups expanded to every member.

    Args:
        outputs: Raw outputs, (population, n, ...).
        targets: Shared (n, ...), or one set a member (population, n, ...).
        groups: Shared (n,), or one set a member (population, n).
        on: What the predictions shall be: "labels", "scores", or raw outputs for "logits" and "embeddings".

    Example:
        >>> cases = matched(torch.tensor([[-1.0, 2.0], [3.0, 4.0]]), torch.tensor([0, 1]), None, on="labels")
        >>> cases.predictions.tolist(), cases.targets.tolist()
        ([[0, 1], [1, 1]], [[0, 1], [0, 1]])
    """
    if outputs.ndim < 2 or outputs.shape[1] == 0:
        raise MetricError(
            f"outputs of shape {tuple(outputs.shape)} hold no examples; expected (population, n, ...) with n > 0: "
            f"give the metric data"
        )
    outputs = outputs.detach()
    targets = _per_member(targets.to(outputs.device), outputs, "targets")
    groups = None if groups is None else _per_member(groups.to(outputs.device), outputs, "groups")
    # -inf is how a class is ruled out; NaN, which amax passes on, and +inf are how a model diverges.
    sound = outputs.flatten(1).amax(1) < torch.inf
    if on in ("labels", "scores"):
        targets = _classes(targets)
        multilabel = targets.ndim == 3
        if multilabel and targets.shape != outputs.shape:
            raise MetricError(
                f"targets {tuple(targets.shape)} and outputs {tuple(outputs.shape)} per population differ; multi-label "
                f"targets need one output column each: give targets as (n,) class numbers or (n, columns) of 0 and 1"
            )
        outputs = (labels_of if on == "labels" else scores_of)(outputs, multilabel=multilabel)
    return Cases(outputs, targets, groups, sound)


def as_array(tensor: Tensor) -> np.ndarray:
    """The tensor as a NumPy array of the same type, bfloat16 as float32.

    Example:
        >>> as_array(torch.ones(1, dtype=torch.bfloat16)).dtype
        dtype('float32')
    """
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _per_member(rows: Tensor, outputs: Tensor, what: str) -> Tensor:
    """`rows` with a leading population dimension."""
    each = rows.ndim >= 2 and rows.shape[:2] == outputs.shape[:2]
    shared = rows.ndim >= 1 and rows.shape[0] == outputs.shape[1]
    columns = rows.ndim == 2 and rows.shape == outputs.shape[1:] and what == "targets"
    if each and columns and rows.numel() > 1:
        raise MetricError(
            f"{what} of shape {tuple(rows.shape)} could be one row a member or several labels an example of outputs "
            f"{tuple(outputs.shape)}: give (population, n, 1) for the former, (population, n, columns) for the latter"
        )
    if each:
        return rows
    if shared:
        return rows.expand(outputs.shape[0], *rows.shape)
    raise MetricError(
        f"{what} of shape {tuple(rows.shape)} do not fit {outputs.shape[0]} member(s) with {outputs.shape[1]} outputs; "
        f"give {what} as (n,) for all or (population, n) for each"
    )


def _classes(targets: Tensor) -> Tensor:
    if targets.ndim == 3 and targets.shape[-1] == 1:
        targets = targets.squeeze(-1)
    whole = not targets.is_floating_point() or bool((targets == targets.round()).all())
    return targets.long() if whole else targets
