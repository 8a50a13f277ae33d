"""Dynamic biases (CAVIA; Fig. S1a): phi as additional inputs of the first fully-connected layer."""

from dataclasses import dataclass

from torch import Generator

from metricopt.adapters.channels import ChannelMap, ChannelModulation
from metricopt.adapters.layers import LINEAR, Survey, first_kind, named_sites
from metricopt.adapters.spec import ADAPTERS, SingleAdapter, checked_dim


@dataclass(frozen=True)
class DynamicBias(SingleAdapter):
    """The first linear layer sees [x, phi]: W x + b becomes W x + b + W_phi phi, with W_phi fixed and random.

    W_phi is no parameter: trained along with the network on phi = 0 it would only feel weight decay, fade to zero,
    and phi would do nothing.

    Attributes:
        dim: Coordinates of phi (d).
        layer: Name of the linear layer; the first one if None.
        strength: Length of the rows of W_phi, so the deviation of each shift when the coordinates of phi have unit
            variance, whatever `dim`.

    Example:
        >>> import torch
        >>> from metricopt.adapters import adapt
        >>> model = adapt(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()), DynamicBias(dim=8))
        >>> model.layers, model.dim
        (('0',), 8)
    """

    dim: int = 16
    layer: str | None = None
    strength: float = 0.5

    def __post_init__(self) -> None:
        checked_dim(self.dim)

    def bind(self, found: Survey, generator: Generator) -> ChannelModulation:
        """Its modulation of the network that was surveyed."""
        if self.layer is None:
            sites = first_kind(found, (LINEAR,), "DynamicBias needs a Linear; FiLM suits convolutional networks")[:1]
        else:
            sites = named_sites(found, (self.layer,), LINEAR)
        shift = ChannelMap(sites, dim=self.dim, strength=self.strength, generator=generator)
        return ChannelModulation(sites, None, shift)


# Called, not decorating: the registry's decorator would hide the class's own arguments from type checkers.
ADAPTERS.add("dynamic_bias")(DynamicBias)
