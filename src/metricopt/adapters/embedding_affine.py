"""Embedding affine: every unit of the layer that makes an embedding scaled and shifted, before it is normalised."""

from dataclasses import dataclass

from torch import Generator

from metricopt.adapters.channels import ChannelModulation, affine_of_channels
from metricopt.adapters.layers import CONVOLUTION, LINEAR, SAMPLE_NORM, Survey, listing, named_sites
from metricopt.adapters.spec import ADAPTERS, SingleAdapter
from metricopt.core.errors import AdapterError

_KINDS = LINEAR + CONVOLUTION + SAMPLE_NORM


@dataclass(frozen=True)
class EmbeddingAffine(SingleAdapter):
    """Unit c of a layer's output, h_c, becomes h_c * (1 + s a_c) + s b_c; phi is [a, b], one of each per unit.

    Unlike `OutputAffine` it comes before what a network does after its last layer, such as normalising embeddings, and
    is merged into that layer whatever follows.

    Attributes:
        layer: Name of the layer; the last linear, convolutional or normalising one that is called if None.
        strength: s, so that unit coordinates do about as much as those of FiLM.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from metricopt.adapters import adapt
        >>> net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2), nn.Softmax(dim=1))
        >>> model = adapt(net, EmbeddingAffine(), example=torch.zeros(2, 4))
        >>> model.layers, model.dim
        (('2',), 4)
    """

    layer: str | None = None
    strength: float = 0.2

    def bind(self, found: Survey, generator: Generator) -> ChannelModulation:  # noqa: ARG002
        """Its modulation of the network that was surveyed."""
        sites = found.of_kind(_KINDS) if self.layer is None else named_sites(found, (self.layer,), _KINDS)
        if not sites:
            raise AdapterError(
                f"no layer makes an embedding: {listing(found)}; expected a linear, convolutional or normalising one: "
                f"name it as EmbeddingAffine(layer=...)"
            )
        return affine_of_channels(sites[-1:], strength=self.strength)


# Called, not decorating: the registry's decorator would hide the class's own arguments from type checkers.
ADAPTERS.add("embedding_affine")(EmbeddingAffine)
