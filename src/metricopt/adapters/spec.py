"""What an adapter is before and after it meets a network: a small description, then a modulation by phi."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch import Generator, Tensor, nn

from metricopt.adapters.layers import Survey
from metricopt.core.errors import AdapterError
from metricopt.core.registry import Registry

Hook = Callable[[nn.Module, tuple[Any, ...], Tensor], Tensor]


class Modulation(nn.Module, ABC):
    """An adapter bound to one network: its fixed matrices, as buffers, and what its part of phi does there.

    Attributes:
        dim: Number of coordinates of its part of phi.
        layers: Names of the layers it acts on; none if it acts on the network's output or weights.
        head: Name of the layer that is thought to produce the network's output, if it acts on that.
        shifts: Which of its coordinates are added to the outputs, one each, if any are.
        reads_inputs: Whether its hooks look at the inputs of their layers; otherwise at the outputs alone.
        moves_weights: Whether it acts on the network's weights (`moved`).
    """

    dim: int
    layers: tuple[str, ...] = ()
    head: str | None = None
    shifts: slice | None = None
    reads_inputs: bool = True
    moves_weights: bool = False

    @property
    def acts_on_output(self) -> bool:
        """Whether it changes what the network as a whole gives."""
        return not self.layers and not self.moves_weights

    def moved(self, phi: Tensor, original: Mapping[str, Tensor]) -> dict[str, Tensor]:  # noqa: ARG002
        """Weights of the network, by name, that are others at `phi` (dim,); none by default."""
        return {}

    @abstractmethod
    def hooks(self, phi: Tensor) -> dict[str, Hook]:
        """For each layer, by name, what becomes of its output at `phi` (dim,)."""

    @abstractmethod
    def on_output(self, phi: Tensor, output: Any) -> Any:
        """What becomes of the network's output at `phi` (dim,)."""

    @abstractmethod
    def fold(self, phi: Tensor, net: nn.Module) -> None:
        """Write what `phi` (dim,) does into the weights of `net`."""


Parts = Sequence[tuple[Modulation, Tensor]]
"""Modulations, each with its part of phi."""


class Adapter(ABC):
    """Description of an adapter; `a + b` has the coordinates of both.

    Example:
        >>> from metricopt.adapters import FiLM, OutputAffine
        >>> [type(part).__name__ for part in (FiLM(dim=8) + OutputAffine()).parts]
        ['FiLM', 'OutputAffine']
    """

    @abstractmethod
    def summands(self) -> "tuple[SingleAdapter, ...]":
        """The single adapters it consists of, in the order of their slices of phi."""

    @property
    def parts(self) -> "tuple[SingleAdapter, ...]":
        """The single adapters it consists of, in the order of their slices of phi."""
        return self.summands()

    def __add__(self, other: "Adapter") -> "Sum":
        return Sum(self.parts + other.parts)

    def as_dicts(self) -> list[dict[str, Any]]:
        """Its parts as plain data, for a file; `adapter_from` reads them back."""
        names = {kind: name for name, kind in ADAPTERS.items()}
        return [{"adapter": names[type(part)]} | asdict(part) for part in self.parts]


@dataclass(frozen=True)
class SingleAdapter(Adapter):
    """An adapter that is no sum: a frozen dataclass with a default for each field, registered in `ADAPTERS`.

    Example:
        >>> from metricopt.adapters import DynamicBias
        >>> issubclass(DynamicBias, SingleAdapter)
        True
    """

    @abstractmethod
    def bind(self, found: Survey, generator: Generator) -> Modulation:
        """Its modulation of the network that was surveyed; whatever is random comes from the generator."""

    def summands(self) -> "tuple[SingleAdapter, ...]":
        """Itself alone."""
        return (self,)


@dataclass(frozen=True)
class Sum(Adapter):
    """Several adapters at once; phi is the concatenation of their vectors.

    Attributes:
        adapters: The adapters, in the order of their slices of phi.

    Example:
        >>> from metricopt.adapters import DynamicBias, FiLM
        >>> len(Sum((DynamicBias(), FiLM())).parts)
        2
    """

    adapters: tuple[SingleAdapter, ...]

    def summands(self) -> tuple[SingleAdapter, ...]:
        """The adapters."""
        return self.adapters


ADAPTERS: Registry[type[SingleAdapter]] = Registry("adapter")


def adapter_from(dicts: Sequence[Mapping[str, Any]]) -> Adapter:
    """The adapter that `Adapter.as_dicts` described.

    Example:
        >>> from metricopt.adapters import FiLM, OutputAffine
        >>> spec = FiLM(dim=8, layers="norm*") + OutputAffine()
        >>> adapter_from(spec.as_dicts()) == spec
        True
    """
    if not dicts:
        raise AdapterError("the description lists no adapter; expected one at least")
    parts = [ADAPTERS[fields["adapter"]](**{k: v for k, v in fields.items() if k != "adapter"}) for fields in dicts]
    return parts[0] if len(parts) == 1 else Sum(tuple(parts))


def checked_dim(dim: int) -> None:
    """Raise unless an adapter's vector can have this many coordinates."""
    if dim < 1:
        raise AdapterError(f"dim is {dim}, the number of coordinates of phi; expected 1 or more")


def patterns(layers: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Layer names as given by the user, one or several, as a tuple.

    Example:
        >>> patterns("norm*"), patterns(["a", "b"]), patterns(None)
        (('norm*',), ('a', 'b'), None)
    """
    return (layers,) if isinstance(layers, str) else None if layers is None else tuple(layers)
