"""Every channel of some layers scaled and shifted by coordinates of its own: of a detector, its scores and boxes."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Generator

from metricopt.adapters.channels import ChannelModulation, affine_of_channels
from metricopt.adapters.detector import pooling
from metricopt.adapters.layers import CONVOLUTION, EVERY_KIND, LINEAR, Survey, first_kind, named_sites
from metricopt.adapters.spec import ADAPTERS, SingleAdapter, patterns


@dataclass(frozen=True)
class LayerAffine(SingleAdapter):
    """Channel c of a layer's output h becomes h_c * (1 + a_c) + b_c; phi is [a, b], one of each per channel, scaled.

    Nothing about it is random. Of a detector, with `layers="roi_heads.box_predictor.*"`, these are an affine of each
    class score and of each correction of a box.

    Attributes:
        layers: Names of layers, or patterns; the last linear or convolutional one if None.
        strength: What a coordinate of 1 changes a scale or adds as a shift.

    Example:
        >>> import torch
        >>> from metricopt.adapters import adapt
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
        >>> model = adapt(net, LayerAffine())
        >>> model.dim, model.shift_coordinates
        (6, slice(3, 6, None))
    """

    layers: str | Sequence[str] | None = None
    strength: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", patterns(self.layers))

    def bind(self, found: Survey, generator: Generator) -> ChannelModulation:  # noqa: ARG002
        """Its modulation of the network that was surveyed."""
        if self.layers is None:
            sites = first_kind(found, (LINEAR + CONVOLUTION,), "LayerAffine needs a linear layer or a convolution")[-1:]
        else:
            sites = named_sites(found, self.layers, EVERY_KIND + pooling())
        # Not in the order of calls, which only an example tells: phi would mean something else without it.
        sites = tuple(sorted(sites, key=lambda site: found.defined.index(site.name)))
        modulation = affine_of_channels(sites, strength=self.strength)
        if len(sites) == 1:  # otherwise it is no shift of what the network says
            modulation.shifts = slice(sites[0].channels, 2 * sites[0].channels)
        return modulation


# Called, not decorating: the registry's decorator would hide the class's own arguments from type checkers.
ADAPTERS.add("layer_affine")(LayerAffine)
