"""The whole last layer as phi, the largest of the inputs that the paper's Figure S4 gives to the value function."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, final

from torch import Generator, Tensor, nn
from torch.nn import functional

from metricopt.adapters.channels import set_weight_and_bias, weight_and_bias
from metricopt.adapters.layers import LINEAR, Site, Survey, first_kind, named_sites
from metricopt.adapters.spec import ADAPTERS, Hook, Modulation, SingleAdapter


@dataclass(frozen=True)
class LastLayer(SingleAdapter):
    """The last linear layer W x + b becomes (W + V) x + b + v; phi is [V row by row, v], scaled.

    phi has `inputs * outputs + outputs` coordinates: for wide layers a good deal more than a few hundred queries can
    tell apart. Nothing about it is random.

    Attributes:
        layer: Name of the linear layer; the last one if None.
        strength: A coordinate of 1 is a change of `strength` in v and of `strength / sqrt(inputs)` in V. So coordinates
            of unit variance change each output by a deviation of `strength` through V if inputs have unit variance,
            whatever the width, and by as much again through v.

    Example:
        >>> import torch
        >>> from metricopt.adapters import adapt
        >>> model = adapt(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), LastLayer())
        >>> model.layers, model.dim
        (('2',), 27)
    """

    layer: str | None = None
    strength: float = 1.0

    def bind(self, found: Survey, generator: Generator) -> "LinearModulation":  # noqa: ARG002
        """Its modulation of the network that was surveyed."""
        if self.layer is None:
            sites = first_kind(found, (LINEAR,), "LastLayer needs a Linear; Biases suits convolutional networks")
        else:
            sites = named_sites(found, (self.layer,), LINEAR)
        return LinearModulation(sites[-1], strength=self.strength)


# Called, not decorating: the registry's decorator would hide the class's own arguments from type checkers.
ADAPTERS.add("last_layer")(LastLayer)


@final
class LinearModulation(Modulation):
    """A linear layer whose weight and bias move with phi.

    Example:
        >>> from metricopt.adapters import adapt
        >>> model = adapt(nn.Linear(4, 3), LastLayer())
        >>> isinstance(model.modulations[0], LinearModulation)
        True
    """

    def __init__(self, site: Site, *, strength: float) -> None:
        super().__init__()
        assert isinstance(site.module, nn.Linear)
        self.layers = (site.name,)
        self._shape = (site.module.out_features, site.module.in_features)
        self.dim = site.module.out_features * (site.module.in_features + 1)
        self._strength = strength

    def hooks(self, phi: Tensor) -> dict[str, Hook]:
        """What the changes of weight and bias add to the layer's output."""
        return {self.layers[0]: partial(_linear_hook, *self._changes(phi))}

    def on_output(self, phi: Tensor, output: Any) -> Any:  # noqa: ARG002
        """The output as it is."""
        return output

    def fold(self, phi: Tensor, net: nn.Module) -> None:
        """Add the changes to weight and bias."""
        layer, (change, shift) = net.get_submodule(self.layers[0]), self._changes(phi)
        weight, bias = weight_and_bias(layer, shift)
        set_weight_and_bias(layer, weight + change, bias + shift)

    def _changes(self, phi: Tensor) -> tuple[Tensor, Tensor]:
        outputs, inputs = self._shape
        weight, bias = phi.split([outputs * inputs, outputs])
        return weight.reshape(outputs, inputs) * (self._strength / math.sqrt(inputs)), self._strength * bias


def _linear_hook(change: Tensor, shift: Tensor, _layer: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
    # Added to the output instead of swapped into the layer: phi = 0 leaves the output as it is, to the last bit.
    return output + functional.linear(inputs[0], change.to(inputs[0].dtype), shift.to(inputs[0].dtype)).to(output.dtype)
