"""Per-channel scales and shifts: where they come from, what they do to an output, how weights take them in."""

from functools import partial
from typing import Any, NamedTuple, final

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from metricopt.adapters.detector import first_of_head, pooling
from metricopt.adapters.layers import CONVOLUTION, LINEAR, Site
from metricopt.adapters.spec import Hook, Modulation
from metricopt.core.errors import AdapterError


class Affine(NamedTuple):
    """What one phi does to each channel of one layer: h * (1 + scale) + shift, each (channels,)."""

    scale: Tensor
    shift: Tensor


class ChannelMap(nn.Module):
    """Fixed random linear map from phi to one number per channel of each of several layers.

    Every row has length `strength`: coordinates of phi with unit variance give each channel a number of standard
    deviation `strength`, whatever the dimension.

    Example:
        >>> from metricopt.adapters.layers import survey
        >>> sites = survey(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(5))).sites
        >>> rows = ChannelMap(sites, dim=8, strength=0.1, generator=torch.Generator())
        >>> {name: tuple(numbers.shape) for name, numbers in rows(torch.zeros(8)).items()}
        {'0': (3,), '1': (5,)}
    """

    matrix: Tensor

    def __init__(self, sites: tuple[Site, ...], *, dim: int, strength: float, generator: Generator) -> None:
        super().__init__()
        self.dim = dim
        self.sizes = {site.name: site.channels for site in sites}
        directions = torch.randn(sum(self.sizes.values()), dim, generator=generator)
        self.register_buffer("matrix", strength * functional.normalize(directions, dim=1))

    def forward(self, phi: Tensor) -> dict[str, Tensor]:
        """Numbers per channel, by layer name, for phi (dim,)."""
        numbers = self.matrix @ phi  # (all channels,)
        return dict(zip(self.sizes, numbers.split(list(self.sizes.values())), strict=True))


@final
class ChannelCoordinates(nn.Module):
    """One coordinate of phi for each channel of several layers, times `strength`: the map without a matrix.

    They are the coordinates from `first` on, of `dim` in all; all of them unless told otherwise.

    Example:
        >>> from metricopt.adapters.layers import survey
        >>> sites = survey(nn.Sequential(nn.Linear(4, 1), nn.BatchNorm1d(2))).sites
        >>> ChannelCoordinates(sites, strength=2.0)(torch.tensor([1.0, 2.0, 3.0]))
        {'0': tensor([2.]), '1': tensor([4., 6.])}
    """

    def __init__(self, sites: tuple[Site, ...], *, strength: float, first: int = 0, dim: int | None = None) -> None:
        super().__init__()
        self.sizes = {site.name: site.channels for site in sites}
        total = sum(self.sizes.values())
        self.dim = total if dim is None else dim
        self._strength, self._own = strength, slice(first, first + total)

    def forward(self, phi: Tensor) -> dict[str, Tensor]:
        """Numbers per channel, by layer name, for phi (dim,)."""
        numbers = self._strength * phi[self._own]
        return dict(zip(self.sizes, numbers.split(list(self.sizes.values())), strict=True))


class ScaleAndShift(Modulation):
    """A scale A phi and a shift B phi for each channel of some layers; what they act on is left open.

    Attributes:
        axes: Channel axis of the output of each layer.
        scale: The map A; None for zero.
        shift: The map B.
    """

    def __init__(
        self,
        sites: tuple[Site, ...],
        scale: ChannelMap | ChannelCoordinates | None,
        shift: ChannelMap | ChannelCoordinates,
    ) -> None:
        super().__init__()
        self.dim = shift.dim
        self.layers = tuple(site.name for site in sites)
        self.axes = {site.name: site.axis for site in sites}
        self.scale = scale
        self.shift = shift

    def on_output(self, phi: Tensor, output: Any) -> Any:  # noqa: ARG002
        """The output as it is."""
        return output

    def affines(self, phi: Tensor) -> dict[str, Affine]:
        """For each layer, by name, the scales and shifts of its channels at `phi` (dim,)."""
        shifts = self.shift(phi)
        scales = {name: torch.zeros_like(b) for name, b in shifts.items()} if self.scale is None else self.scale(phi)
        return {name: Affine(scales[name], shifts[name]) for name in self.layers}


@final
class ChannelModulation(ScaleAndShift):
    """Layers whose outputs h become h * (1 + A phi) + B phi, or h + B phi without `scale`.

    Example:
        >>> from metricopt.adapters import FiLM, adapt
        >>> model = adapt(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), FiLM(dim=2))
        >>> model.modulations[0].layers
        ('1',)
    """

    reads_inputs = False

    def hooks(self, phi: Tensor) -> dict[str, Hook]:
        """For each layer the affine map of its output."""
        return {name: partial(_affine_hook, affine, self.axes[name]) for name, affine in self.affines(phi).items()}

    def fold(self, phi: Tensor, net: nn.Module) -> None:
        """Scale and shift the last thing each layer does."""
        for name, affine in self.affines(phi).items():
            if isinstance(net.get_submodule(name), pooling()):
                fold_pooled(net, name, affine)
            else:
                fold_affine(net.get_submodule(name), affine)


def affine_of_channels(sites: tuple[Site, ...], *, strength: float) -> ChannelModulation:
    """Channel c of the layers becomes h_c * (1 + s a_c) + s b_c, with strength s; phi is [a, b], one of each a channel.

    Example:
        >>> from metricopt.adapters.layers import survey
        >>> affine_of_channels(survey(nn.Linear(4, 3)).sites, strength=0.2).dim
        6
    """
    count = sum(site.channels for site in sites)
    scale, shift = (ChannelCoordinates(sites, strength=strength, first=first, dim=2 * count) for first in (0, count))
    return ChannelModulation(sites, scale, shift)


def modulated(output: Tensor, affine: Affine, axis: int) -> Tensor:
    """`output` * (1 + scale) + shift along its channel axis.

    Example:
        >>> modulated(torch.ones(1, 2), Affine(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 5.0])), axis=-1)
        tensor([[2., 6.]])
    """
    return output * (1 + along(affine.scale, output, axis)) + along(affine.shift, output, axis)


def along(numbers: Tensor, output: Tensor, axis: int) -> Tensor:
    """One number per channel, shaped and typed to broadcast against `output`.

    Example:
        >>> along(torch.zeros(3), torch.zeros(2, 3, 5, 5), axis=1).shape
        torch.Size([3, 1, 1])
    """
    trailing = output.ndim - 1 - axis if axis >= 0 else -1 - axis
    # Under autocast the output may be of half precision; without the cast it would leave in single precision.
    # The layers of a network may be on several devices.
    return numbers.reshape(-1, *[1] * trailing).to(output.device, output.dtype)


def fold_affine(layer: nn.Module, affine: Affine) -> None:
    """Make `layer` do the scaling and shifting itself; weight and bias are created where it had none.

    Example:
        >>> layer = nn.Linear(2, 1, bias=False)
        >>> fold_affine(layer, Affine(torch.tensor([1.0]), torch.tensor([0.5])))
        >>> layer.bias
        Parameter containing:
        tensor([0.5000], requires_grad=True)
    """
    weight, bias = weight_and_bias(layer, affine.shift)
    is_matrix = isinstance(layer, LINEAR + CONVOLUTION)
    rows = affine.scale.reshape(-1, *[1] * (weight.ndim - 1)) if is_matrix else affine.scale
    set_weight_and_bias(layer, weight * (1 + rows), bias * (1 + affine.scale) + affine.shift)


def fold_pooled(net: nn.Module, name: str, affine: Affine) -> None:
    """Make the first layer of a detector's box head do the scaling and shifting of the pooled features it is given."""
    head, size = first_of_head(net, name)
    if head is None or head.in_features != len(affine.scale) * size:
        raise AdapterError(
            f"{name!r} pools features that no linear layer takes as they are, so a scale and shift of them cannot be "
            f"merged into weights; expected a box head that begins with one"
        )
    weight, bias = weight_and_bias(head, torch.zeros(head.out_features).to(affine.scale))
    scale, shift = (numbers.repeat_interleave(size) for numbers in affine)  # as (channels, height, width) is flattened
    set_weight_and_bias(head, weight * (1 + scale), bias + weight @ shift)


def weight_and_bias(layer: nn.Module, like: Tensor) -> tuple[Tensor, Tensor]:
    """Weight and bias of a layer, or what their absence means: ones and zeros, shaped like a normalised sample.

    Example:
        >>> weight_and_bias(nn.BatchNorm1d(2, affine=False), torch.zeros(2))
        (tensor([1., 1.]), tensor([0., 0.]))
    """
    shape = layer.normalized_shape if isinstance(layer, nn.LayerNorm) else like.shape
    weight, bias = layer._parameters["weight"], layer._parameters["bias"]
    return (
        torch.ones(shape).to(like) if weight is None else weight.detach(),
        torch.zeros(shape).to(like) if bias is None else bias.detach(),
    )


def set_weight_and_bias(layer: nn.Module, weight: Tensor, bias: Tensor) -> None:
    """Give a layer new parameters, of the type of its own; those it shared with other layers stay theirs."""
    own = next((tensor for tensor in layer._parameters.values() if tensor is not None), weight)
    for name, tensor in (("weight", weight), ("bias", bias)):
        before = layer._parameters[name]
        layer.register_parameter(name, nn.Parameter(tensor.to(own), before is None or before.requires_grad))
    # The flags decide nothing any more, but the layer prints them.
    if isinstance(layer, nn.LayerNorm):
        layer.elementwise_affine = True
    elif isinstance(layer, nn.GroupNorm | nn.modules.batchnorm._BatchNorm):
        layer.affine = True


def _affine_hook(affine: Affine, axis: int, _layer: nn.Module, _inputs: tuple[Any, ...], output: Tensor) -> Tensor:
    return modulated(output, affine, axis)
