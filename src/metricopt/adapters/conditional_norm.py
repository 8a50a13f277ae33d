"""Conditional normalisation (de Vries et al. 2017): phi moves the affine parameters of the norm layers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

from torch import Generator, Tensor, nn
from torch.nn import functional

from metricopt.adapters.channels import Affine, ChannelMap, ScaleAndShift, along, set_weight_and_bias, weight_and_bias
from metricopt.adapters.layers import BATCH_NORM, SAMPLE_NORM, Survey, named_or_norms
from metricopt.adapters.spec import ADAPTERS, Hook, SingleAdapter, checked_dim, patterns


@dataclass(frozen=True)
class ConditionalNorm(SingleAdapter):
    """Norm layers with gamma + A phi for gamma and beta + B phi for beta, with A and B fixed and random.

    Other than in FiLM, the scale acts on the normalised activations: it reaches channels whose gamma is zero, and
    leaves beta alone.

    Attributes:
        dim: Coordinates of phi (d).
        layers: Names of norm layers, or patterns such as `"stage3.*"`. All BatchNorms if None; in a network without
            any, all LayerNorms and GroupNorms.
        strength: Length of the rows of A and B, so the deviation of each change of gamma and beta when the
            coordinates of phi have unit variance, whatever `dim`.

    Example:
        >>> import torch
        >>> from metricopt.adapters import adapt
        >>> model = adapt(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.LayerNorm(3)), ConditionalNorm(dim=8))
        >>> model.layers, model.dim
        (('1',), 8)
    """

    dim: int = 128
    layers: str | Sequence[str] | None = None
    strength: float = 0.2

    def __post_init__(self) -> None:
        checked_dim(self.dim)
        object.__setattr__(self, "layers", patterns(self.layers))

    def bind(self, found: Survey, generator: Generator) -> "NormModulation":
        """Its modulation of the network that was surveyed."""
        wish = "ConditionalNorm needs BatchNorm, LayerNorm or GroupNorm; FiLM(layers=...) takes other layers"
        sites = named_or_norms(found, self.layers, BATCH_NORM + SAMPLE_NORM, wish)
        scale = ChannelMap(sites, dim=self.dim, strength=self.strength, generator=generator)
        shift = ChannelMap(sites, dim=self.dim, strength=self.strength, generator=generator)
        return NormModulation(sites, scale, shift)


# Called, not decorating: the registry's decorator would hide the class's own arguments from type checkers.
ADAPTERS.add("conditional_norm")(ConditionalNorm)


@final
class NormModulation(ScaleAndShift):
    """Norm layers whose affine parameters move with phi.

    Example:
        >>> import torch
        >>> from metricopt.adapters import adapt
        >>> model = adapt(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), ConditionalNorm(dim=2))
        >>> isinstance(model.modulations[0], NormModulation)
        True
    """

    def hooks(self, phi: Tensor) -> dict[str, Hook]:
        """For each layer what the changes of gamma and beta add to its output."""
        return {name: partial(_norm_hook, change, self.axes[name]) for name, change in self.affines(phi).items()}

    def fold(self, phi: Tensor, net: nn.Module) -> None:
        """Add the changes to gamma and beta."""
        for name, change in self.affines(phi).items():
            layer = net.get_submodule(name)
            gamma, beta = weight_and_bias(layer, change.shift)
            set_weight_and_bias(layer, gamma + change.scale, beta + change.shift)


def normalised(layer: nn.Module, x: Tensor) -> Tensor:
    """What a norm layer in eval mode makes of `x` before its gamma and beta.

    Example:
        >>> import torch
        >>> normalised(nn.LayerNorm(2, eps=0.0), torch.tensor([[1.0, 3.0]]))
        tensor([[-1.,  1.]])
    """
    if isinstance(layer, nn.LayerNorm):
        return functional.layer_norm(x, layer.normalized_shape, eps=layer.eps)
    if isinstance(layer, nn.GroupNorm):
        return functional.group_norm(x, layer.num_groups, eps=layer.eps)
    assert isinstance(layer, nn.modules.batchnorm._BatchNorm)
    by_batch = layer.running_mean is None
    return functional.batch_norm(x, layer.running_mean, layer.running_var, training=by_batch, eps=layer.eps)


def _norm_hook(change: Affine, axis: int, layer: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
    # Added to the output instead of swapped into the layer: phi = 0 leaves the output as it is, to the last bit.
    return output + normalised(layer, inputs[0]) * along(change.scale, output, axis) + along(change.shift, output, axis)
