"""From raw model outputs to what a metric wants to see: labels or scores; or from a model to its network."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from metricopt.core.errors import MetricError
from metricopt.core.tree import Tree, each


def labels_of(outputs: Tensor, *, multilabel: bool = False) -> Tensor:
    """Predicted classes of a population of models, int64.

    A single logit says class 1 where it is positive; several say the class of the largest, the first one among equals.

    Args:
        outputs: Logits, (population, n), (population, n, 1) or (population, n, classes).
        multilabel: Whether each column is a yes/no question of its own.

    Returns:
        Classes, (population, n), or with `multilabel` 0 or 1 for each column, (population, n, columns).

    Example:
        >>> labels_of(torch.tensor([[-1.0, 2.0]])).tolist()
        [[0, 1]]
        >>> labels_of(torch.tensor([[[0.1, 0.2, 0.9], [3.0, 1.0, 2.0]]])).tolist()
        [[2, 0]]
        >>> labels_of(torch.tensor([[[-1.0, 2.0, 3.0]]]), multilabel=True).tolist()
        [[[0, 1, 1]]]
    """
    outputs = _single_logit_flat(outputs)
    if outputs.ndim == 2 or multilabel:
        return (outputs > 0).long()
    return outputs.argmax(-1)


def scores_of(outputs: Tensor, *, multilabel: bool = False) -> Tensor:
    """Probabilities of a population of models, float64.

    Args:
        outputs: Logits, (population, n), (population, n, 1) or (population, n, classes).
        multilabel: Whether each column is a yes/no question of its own.

    Returns:
        Sigmoid of single logits, (population, n); of each column with `multilabel`; otherwise the softmax,
        (population, n, classes).

    Example:
        >>> scores_of(torch.tensor([[0.0, 100.0]])).tolist()
        [[0.5, 1.0]]
        >>> scores_of(torch.tensor([[[1.0, 1.0]]])).tolist()
        [[[0.5, 0.5]]]
    """
    # In float32 confident predictions saturate to the same score, and a ranking metric would see ties.
    outputs = _single_logit_flat(outputs).double()
    if outputs.ndim == 2 or multilabel:
        return outputs.sigmoid()
    # The softmax, written out: torch's own takes three times as long for a few classes in double precision.
    scores = (outputs - outputs.amax(-1, keepdim=True)).exp_()
    return scores.div_(scores.sum(-1, keepdim=True))


def margin_of(outputs: Tensor) -> Tensor:
    """How far two-class models lean to class 1: the logit, or the difference of two; ranks as the probability does.

    Args:
        outputs: Logits or probabilities, (population, n), (population, n, 1) or (population, n, 2).

    Returns:
        Margins in float64, (population, n).

    Example:
        >>> margin_of(torch.tensor([[[1.0, 3.0], [2.0, 0.0]]])).tolist()
        [[2.0, -2.0]]
    """
    outputs = _single_logit_flat(outputs).double()
    if outputs.ndim == 2:
        return outputs
    if outputs.shape[-1] != 2:
        raise MetricError(
            f"a two-class metric met {outputs.shape[-1]} output columns; it takes 1 or 2: "
            f"use a multi-class metric such as 'aucpr_macro' or 'macro_f1'"
        )
    return outputs[..., 1] - outputs[..., 0]


def outputs_of(model: Callable[..., Any], inputs: Any) -> Tensor:
    """Raw outputs of a model on `inputs`, without gradients and in eval mode.

    Example:
        >>> outputs_of(nn.Dropout(0.9), torch.ones(2)).tolist()
        [1.0, 1.0]
    """
    with evaluating(model):
        outputs = model(copied(inputs))
    if not isinstance(outputs, Tensor):
        raise MetricError(
            f"the model returned {type(outputs).__name__}, not a tensor of outputs: "
            f"describe the metric with on='model' and read the predictions in its function"
        )
    return outputs


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Without gradients and, for a module, in eval mode; every submodule gets its own mode back.

    Example:
        >>> net = nn.Dropout()
        >>> with evaluating(net):
        ...     net.training
        False
        >>> net.training
        True
    """
    modes = [(module, module.training) for module in model.modules()] if isinstance(model, nn.Module) else []
    for module, _ in modes:
        module.training = False
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


@runtime_checkable
class Adapted(Protocol):
    """A model whose network can be made to act as the model does, for some time."""

    def net_at(self) -> AbstractContextManager[nn.Module]:
        """The network, acting as the model does within this context."""
        ...


@contextmanager
def applied(model: Any) -> Iterator[Any]:
    """What a metric of the model itself is given, without gradients and in eval mode: the user's own network.

    Buffers that it updates all the same, as those of a BatchNorm switched to train mode, are put back.

    Example:
        >>> net = nn.Linear(2, 1)
        >>> with applied(net) as given:
        ...     given is net, given.training
        (True, False)
    """
    if isinstance(model, Adapted):
        with model.net_at() as net, applied(net):
            yield net
        return
    buffers = list(model.buffers()) if isinstance(model, nn.Module) else []
    before = [(buffer, buffer.clone()) for buffer in buffers]
    try:
        with evaluating(model):
            yield model
    finally:
        for buffer, content in before:
            if not torch.equal(buffer, content):  # its version tells nothing: a BatchNorm's statistics do not raise it
                with torch.no_grad():
                    buffer.copy_(content)


def copied(tree: Tree) -> Tree:
    """The same tree with a copy of every tensor and array.

    Example:
        >>> one = {"x": torch.ones(2)}
        >>> copied(one)["x"].zero_().tolist(), one["x"].tolist()
        ([0.0, 0.0], [1.0, 1.0])
    """
    return tree.copy() if isinstance(tree, np.ndarray) else each(lambda tensor: tensor.detach().clone(), tree)


def _single_logit_flat(outputs: Tensor) -> Tensor:
    if outputs.ndim not in (2, 3):
        raise MetricError(
            f"outputs of shape {tuple(outputs.shape)} per population have no labels or scores; expected one logit or "
            f"one column of logits per class for each example: describe the metric with on='logits' and convert there"
        )
    return outputs.squeeze(-1) if outputs.ndim == 3 and outputs.shape[-1] == 1 else outputs
