"""How a loss is computed from what the network gives: the user's function, the network's own loss, or cross-entropy."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from metricopt.adapters import AdaptedModel
from metricopt.adapters.detector import detect, is_detector, own_losses
from metricopt.adapters.device import on_model
from metricopt.adapters.weight_directions import MovedWeights
from metricopt.core.errors import DataError
from metricopt.core.tree import Call, Tree, described
from metricopt.data.dataset import Batch, Data
from metricopt.losses import cross_entropy
from metricopt.losses.boxes import box_loss

Loss = Callable[[Any, Any], Tensor]


@dataclass(frozen=True)
class LossRule:
    """A loss as a function of one phi and a batch.

    Attributes:
        name: What it is called in plans and messages.
        function: `function(output, targets)`, or of the whole batch.
        of_batch: Whether it is given the whole batch in place of the targets.
        label_key: Under which name the network takes the targets beside its inputs; None if it does not.
        call: How a network that is given (inputs, targets) is called for a loss of its own, if it is.

    Example:
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> model, rule = adapt(nn.Linear(3, 2), OutputAffine()), LossRule("cross_entropy", cross_entropy)
        >>> rule(model, torch.zeros(4), Batch(torch.ones(5, 3), torch.zeros(5).long())).shape
        torch.Size([])
    """

    name: str
    function: Loss
    of_batch: bool = False
    label_key: str | None = None
    call: Call | None = None

    def __call__(self, model: AdaptedModel, phi: Tensor, batch: Batch) -> Tensor:
        """The loss at one phi (dim,) on one batch, differentiable in phi."""
        batch = Batch(*(on_model(model, part) for part in batch))
        return self.value(self.output(model, phi, batch), batch)

    @property
    def of_output(self) -> bool:
        """Whether it is a function of what the network gives for inputs alone."""
        return self.call is None and self.label_key is None

    def output(self, model: AdaptedModel, phi: Tensor, batch: Batch) -> Tree:
        """What the network gives, from which the loss is computed."""
        return model.output(phi, self.inputs(batch), call=self.call)

    def inputs(self, batch: Batch) -> Tree:
        """What the network is given: with the targets, where it takes them."""
        if self.call is not None:
            return batch.inputs, batch.targets
        return batch.inputs if self.label_key is None else {**batch.inputs, self.label_key: batch.targets}

    def value(self, output: Tree, batch: Batch) -> Tensor:
        """The loss of an output."""
        return self.function(output, batch if self.of_batch else batch.targets)


def loss_rule(loss: Loss | None, model: AdaptedModel, data: Data) -> LossRule:
    """The rule for a user's loss or, without one, for what the network and the targets suggest.

    Example:
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> from metricopt.data.dataset import Examples
        >>> data = Examples(torch.zeros(4, 3), torch.arange(4) % 2)
        >>> loss_rule(None, adapt(nn.Linear(3, 2), OutputAffine()), data).name
        'cross_entropy'
    """
    key = _label_key(model.net, data)
    if loss is not None:
        whole = _takes_batch(loss)
        return LossRule(_name(loss), loss, of_batch=whole, label_key=key if whole else None)
    if key is not None:
        batch = data.batch(torch.arange(min(2, len(data))), seed=0)
        own = LossRule("the model's own loss", _own_loss, of_batch=True, label_key=key)
        phi = torch.zeros(model.dim, requires_grad=True)
        found = _found_loss(model.output(phi, own.inputs(Batch(*(on_model(model, part) for part in batch)))))
        # Computed inside the network, it knows nothing of a phi that changes outputs only: nothing to follow.
        if found is not None and found.requires_grad:
            return own
    return _of_detector(model) if is_detector(model.net) else _default(model, data)


def _of_detector(model: AdaptedModel) -> LossRule:
    """All losses that a detector was trained with; of its second stage alone where phi reaches no other."""
    moved = [name for part, _ in model.parts() if isinstance(part, MovedWeights) for name in part.names]
    if model.call is detect and all(name.startswith("roi_heads.") for name in (*model.layers, *moved)):
        return LossRule("the second stage's losses", box_loss)
    return LossRule("the detector's own losses", lambda output, _: output, call=own_losses)


def _default(model: AdaptedModel, data: Data) -> LossRule:
    targets = data.batch(torch.arange(min(2, len(data))), seed=0).targets
    if not isinstance(targets, Tensor) or model.reader is None:
        raise DataError(
            f"no loss was given for targets {described(targets)}, and the model has none of its own; expected a "
            f"function: pass loss=, with the network's output and the targets as its arguments"
        )
    if targets.is_floating_point():
        return LossRule("mse_loss", lambda output, truth: _squared(model.read(output), truth))
    return LossRule("cross_entropy", lambda output, truth: cross_entropy(model.read(output), truth))


def _squared(output: Tensor, truth: Tensor) -> Tensor:
    return nn.functional.mse_loss(output.reshape(truth.shape), truth)


def _own_loss(output: Tree, _batch: Batch) -> Tensor:
    found = _found_loss(output)
    if found is None:
        raise DataError(f"the model gave no loss: {described(output)[:200]}; expected one: pass loss=")
    return found


def _found_loss(output: Tree) -> Tensor | None:
    found = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    return found if isinstance(found, Tensor) and found.numel() == 1 else None


def _label_key(net: nn.Module, data: Data) -> str | None:
    """The name of the targets, if the network's forward takes an argument called so."""
    if data.label_key is None:
        return None
    arguments = inspect.signature(net.forward).parameters
    if data.label_key in arguments:
        return data.label_key
    return "labels" if "labels" in arguments else None


def _takes_batch(loss: Loss) -> bool:
    """Whether the second argument of a loss is called `batch`."""
    try:
        names = list(inspect.signature(loss).parameters)
    except (TypeError, ValueError):
        return False
    return len(names) > 1 and names[1] == "batch"


def _name(loss: Loss) -> str:
    return getattr(loss, "__name__", type(loss).__name__)
