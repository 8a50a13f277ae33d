"""Outputs, targets and groups of a population, brought to one shape before any metric sees them.

What a metric gets is its own: it may sort or overwrite its arguments without touching anybody's data. Copies, not
arrays that cannot be written to: torch makes writable tensors of such arrays, and compiled code often refuses them.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from metricopt.core.errors import MetricError
from metricopt.metrics.predictions import labels_of, scores_of


@dataclass(frozen=True)
class Cases:
    """What each member of a population predicts, beside what is true; nothing of it is shared with the caller.

    Attributes:
        predictions: Labels, scores, values or raw outputs, (population, n, ...).
        targets: Truth, (population, n) or, if there are several targets an example, (population, n, ...).
        groups: Group numbers, (population, n), if there are any.
        sound: Whether a member's outputs are free of NaN and +inf, (population,).
    """

    predictions: Tensor
    targets: Tensor
    groups: Tensor | None
    sound: Tensor

    def arrays(self, member: int) -> list[np.ndarray]:
        """NumPy arrays `(y_true, prediction)`, and the groups if there are any, of one member and for it alone."""
        shared = [self.targets[member]] + ([] if self.groups is None else [self.groups[member]])
        truth, *groups = (as_array(part).copy() for part in shared)
        return [truth, as_array(self.predictions[member]), *groups]


def matched(outputs: Tensor, targets: Tensor, groups: Tensor | None, *, on: str, hidden: bool = False) -> Cases:
    """Cases of a population, with shared targets and groups expanded to every member.

    Args:
        outputs: Raw outputs, (population, n, ...).
        targets: Shared (n, ...), or one set a member (population, n, ...).
        groups: Shared (n,), or one set a member (population, n).
        on: What the predictions shall be: "labels", "scores", "values" (outputs in the shape of the targets, where
            only axes of size 1 differ), or raw outputs for "logits" and "embeddings".
        hidden: Whether the targets are numbers of rows, and no truth.

    Example:
        >>> cases = matched(torch.tensor([[-1.0, 2.0], [3.0, 4.0]]), torch.tensor([0, 1]), None, on="labels")
        >>> cases.predictions.tolist(), cases.targets.tolist()
        ([[0, 1], [1, 1]], [[0, 1], [0, 1]])
        >>> matched(torch.ones(3, 5, 1), torch.rand(5), None, on="values").predictions.shape
        torch.Size([3, 5])
    """
    if outputs.ndim < 2 or outputs.shape[1] == 0:
        raise MetricError(
            f"outputs of shape {tuple(outputs.shape)} hold no examples; expected (population, n, ...) with n > 0: "
            f"give the metric data"
        )
    outputs, of_classes = outputs.detach(), on in ("labels", "scores") and not hidden
    targets = _classes(targets, outputs, on) if of_classes else targets
    targets = _per_member(_own(targets, outputs), outputs, "targets")
    groups = None if groups is None else _per_member(_own(groups, outputs), outputs, "groups")
    sound = _sound(outputs, on)
    if on in ("labels", "scores"):
        targets = targets.squeeze(-1) if targets.ndim == 3 and targets.shape[-1] == 1 else targets
        return Cases(_class_predictions(outputs, targets, on), targets, groups, sound)
    return Cases((_shaped_like(targets, outputs) if on == "values" else outputs).clone(), targets, groups, sound)


def as_array(tensor: Tensor) -> np.ndarray:
    """The tensor as a NumPy array of the same type, bfloat16 as float32.

    Example:
        >>> as_array(torch.ones(1, dtype=torch.bfloat16)).dtype
        dtype('float32')
    """
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _own(rows: Tensor, outputs: Tensor) -> Tensor:
    """A copy beside the outputs."""
    return rows.detach().to(outputs.device, copy=True)


def _sound(outputs: Tensor, on: str) -> Tensor:
    # -inf is how a class is ruled out; NaN, which amax passes on, and +inf are how a model diverges.
    flat = outputs.flatten(1)
    sound = flat.amax(1) < torch.inf
    return sound & (flat.amin(1) > -torch.inf) if on == "values" else sound


def _class_predictions(outputs: Tensor, targets: Tensor, on: str) -> Tensor:
    if outputs.ndim == targets.ndim + 1 and outputs.ndim > 3:
        return _dense_predictions(outputs, targets, on)
    multilabel = targets.ndim == 3
    if multilabel and targets.shape != outputs.shape:
        raise MetricError(
            f"targets {tuple(targets.shape)} and outputs {tuple(outputs.shape)} per population differ; multi-label "
            f"targets need one output column each: give targets as (n,) class numbers or (n, columns) of 0 and 1"
        )
    return (labels_of if on == "labels" else scores_of)(outputs, multilabel=multilabel)


def _dense_predictions(outputs: Tensor, targets: Tensor, on: str) -> Tensor:
    """Labels (population, n, ...) or scores (..., classes) of several positions an example, as of pixels or tokens.

    The axis of classes is where torch's losses expect it, (n, classes, ...), or else the last.
    """
    places = targets.shape[2:]
    if outputs.shape[3:] == places:
        outputs = outputs.movedim(2, -1)
    elif outputs.shape[2:-1] != places:
        raise MetricError(
            f"outputs {tuple(outputs.shape)} and targets {tuple(targets.shape)} per population do not fit; expected "
            f"(n, classes, ...) or (n, ..., classes) for targets (n, ...): describe the metric with on='logits'"
        )
    flat = outputs.flatten(1, -2)  # (population, n * places, classes)
    found = (labels_of if on == "labels" else scores_of)(flat)
    return found.unflatten(1, targets.shape[1:])


def _shaped_like(targets: Tensor, outputs: Tensor) -> Tensor:
    """The outputs in the shape of the targets if that leaves every number where it was."""
    sizes = [[size for size in part.shape[2:] if size != 1] for part in (targets, outputs)]
    return outputs.reshape(targets.shape) if sizes[0] == sizes[1] else outputs


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


def _classes(targets: Tensor, outputs: Tensor, on: str) -> Tensor:
    """Targets as class numbers; an error if they are none."""
    if targets.is_floating_point() and bool((targets != targets.round()).any()):
        real = float(targets[targets != targets.round()][0])
        raise MetricError(
            f"targets hold real numbers such as {real:g}, but on={on!r} is about classes: write on='values' for "
            f"regression, or on='logits' to convert the outputs in the metric's function"
        )
    single = outputs.ndim == 2 or outputs.shape[2:] == (1,)
    if single and targets.numel() and (largest := float(targets.max())) > 1:
        raise MetricError(
            f"targets go up to {largest:g}, but one output column can only tell class 0 from 1 with on={on!r}: write "
            f"on='values' for regression, or number the two classes 0 and 1"
        )
    return targets.long()
