"""FiLM (Perez et al. 2018): every feature map scaled and shifted by linear functions of phi."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Generator

from metricopt.adapters.channels import ChannelMap, ChannelModulation
from metricopt.adapters.detector import pooling
from metricopt.adapters.layers import EVERY_KIND, Survey, named_or_norms
from metricopt.adapters.spec import ADAPTERS, SingleAdapter, checked_dim, patterns


@dataclass(frozen=True)
class FiLM(SingleAdapter):
    """Channel c of a layer's output h becomes h_c * (1 + A_c phi) + B_c phi, with A and B fixed and random.

    CAVIA's generator of scale and shift is not the identity at phi = 0; this one is.

    Attributes:
        dim: Coordinates of phi (d).
        layers: Names of layers, or patterns such as `"stage3.*"`, whose outputs are modulated: linear ones,
            convolutions and norms, and a detector's `roi_heads.box_roi_pool`. All BatchNorms if None; in a network
            without any, all LayerNorms and GroupNorms.
        strength: Length of the rows of A and B, so the deviation of each scale and shift when the coordinates of
            phi have unit variance, whatever `dim`.

    Example:
        >>> import torch
        >>> from metricopt.adapters import adapt
        >>> model = adapt(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)), FiLM(dim=8))
        >>> model.layers, model.dim
        (('1',), 8)
    """

    dim: int = 128
    layers: str | Sequence[str] | None = None
    strength: float = 0.2

    def __post_init__(self) -> None:
        checked_dim(self.dim)
        object.__setattr__(self, "layers", patterns(self.layers))

    def bind(self, found: Survey, generator: Generator) -> ChannelModulation:
        """Its modulation of the network that was surveyed."""
        wish = "FiLM follows BatchNorm, LayerNorm or GroupNorm, or the layers you name in FiLM(layers=...)"
        sites = named_or_norms(found, self.layers, EVERY_KIND + pooling(), wish)
        scale = ChannelMap(sites, dim=self.dim, strength=self.strength, generator=generator)
        shift = ChannelMap(sites, dim=self.dim, strength=self.strength, generator=generator)
        return ChannelModulation(sites, scale, shift)


# Called, not decorating: the registry's decorator would hide the class's own arguments from type checkers.
ADAPTERS.add("film")(FiLM)
