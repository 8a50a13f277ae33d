"""Embedding affine: every unit of the layer that makes an embedding scaled and shifted, before it is normalised."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Generator, Tensor, nn

from metricopt.adapters.channels import Affine, affine_hook, fold_affine
from metricopt.adapters.layers import CONVOLUTION, LINEAR, SAMPLE_NORM, Site, Survey, listing, named_sites
from metricopt.adapters.spec import ADAPTERS, Hook, Modulation, SingleAdapter
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
        >>> from metricopt.adapters import adapt
        >>> net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2), nn.Softmax(dim=1))
        >>> model = adapt(net, EmbeddingAffine(), example=torch.zeros(2, 4))
        >>> model.layers, model.dim
        (('2',), 4)
    """

    layer: str | None = None
    strength: float = 0.2

    def bind(self, found: Survey, generator: Generator) -> "EmbeddingModulation":  # noqa: ARG002
        """Its modulation of the network that was surveyed."""
        sites = found.of_kind(_KINDS) if self.layer is None else named_sites(found, (self.layer,), _KINDS)
        if not sites:
            raise AdapterError(
                f"no layer makes an embedding: {listing(found)}; expected a linear, convolutional or normalising one: "
                f"name it as EmbeddingAffine(layer=...)"
            )
        return EmbeddingModulation(sites[-1], self.strength)


# Called, not decorating: the registry's decorator would hide the class's own arguments from type checkers.
ADAPTERS.add("embedding_affine")(EmbeddingAffine)


class EmbeddingModulation(Modulation):
    """One layer's output scaled and shifted unit by unit.

    Example:
        >>> from metricopt.adapters import adapt
        >>> adapt(nn.Linear(4, 3), EmbeddingAffine()).modulations[0].layers
        ('',)
    """

    reads_inputs = False

    def __init__(self, site: Site, strength: float) -> None:
        super().__init__()
        self.dim = 2 * site.channels
        self.layers = (site.name,)
        self._axis, self._strength = site.axis, strength

    def hooks(self, phi: Tensor) -> dict[str, Hook]:
        """The affine map of the layer's output."""
        return {self.layers[0]: partial(affine_hook, self._affine(phi), self._axis)}

    def on_output(self, phi: Tensor, output: Any) -> Any:  # noqa: ARG002
        """The output as it is."""
        return output

    def fold(self, phi: Tensor, net: nn.Module) -> None:
        """Scale and shift the last thing the layer does."""
        fold_affine(net.get_submodule(self.layers[0]), self._affine(phi))

    def _affine(self, phi: Tensor) -> Affine:
        scale, shift = (self._strength * phi).chunk(2)
        return Affine(scale, shift)
