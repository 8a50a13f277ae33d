"""Biases as phi: what the paper's Figure S4 gives to the value function in place of FiLM's vector."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Generator

from metricopt.adapters.channels import ChannelCoordinates, ChannelModulation
from metricopt.adapters.layers import EVERY_KIND, Survey, listing, named_sites
from metricopt.adapters.spec import ADAPTERS, SingleAdapter, patterns
from metricopt.core.errors import AdapterError


@dataclass(frozen=True)
class Biases(SingleAdapter):
    """Each bias of some layers plus a coordinate of phi of its own, times `strength`.

    phi has as many coordinates as the layers have channels, in the order in which the network defines them: with all
    layers it grows with the network. Nothing about it is random.

    Attributes:
        layers: Names of linear layers, convolutions and norms, or patterns such as `"stage3.*"`; where such a layer has
            no bias, it counts as zero. All layers that have biases if None; the last layer alone is its name.
        strength: What a coordinate of 1 adds to its bias, so the deviation of each shift when the coordinates of phi
            have unit variance; as of FiLM.

    Example:
        >>> import torch
        >>> from metricopt.adapters import adapt
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
        >>> adapt(net, Biases()).dim, adapt(net, Biases(layers="2")).dim
        (11, 3)
    """

    layers: str | Sequence[str] | None = None
    strength: float = 0.2

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", patterns(self.layers))

    def bind(self, found: Survey, generator: Generator) -> ChannelModulation:  # noqa: ARG002
        """Its modulation of the network that was surveyed."""
        if self.layers is None:
            sites = tuple(site for site in found.of_kind(EVERY_KIND) if site.module._parameters["bias"] is not None)
        else:
            sites = named_sites(found, self.layers, EVERY_KIND)
        if not sites:
            raise AdapterError(f"no layer has a bias: {listing(found)}; expected one: name some in Biases(layers=...)")
        # Not in the order of calls, which only an example tells: phi would mean something else without it.
        sites = tuple(sorted(sites, key=lambda site: found.defined.index(site.name)))
        return ChannelModulation(sites, None, ChannelCoordinates(sites, strength=self.strength))


# Called, not decorating: the registry's decorator would hide the class's own arguments from type checkers.
ADAPTERS.add("biases")(Biases)
