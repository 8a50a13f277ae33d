"""Weight directions: phi scales changes of the network's own weights that finetuning has found."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Generator, Tensor, nn

from metricopt.adapters.layers import Survey
from metricopt.adapters.spec import ADAPTERS, Hook, Modulation, SingleAdapter, patterns
from metricopt.core.errors import AdapterError

_LEAST_VARIANCE = 1e-6
_STATISTICS = ("running_mean", "running_var")
State = Mapping[str, Tensor]


@dataclass(frozen=True)
class WeightDirections(SingleAdapter):
    """Weights and statistics W become W + sum_k phi_k Delta_k; merging is adding.

    Bound to a network the Delta are random, in proportion to the weights; `WeightModulation.set_changes` puts
    those of finetuned networks in their place.

    Attributes:
        directions: How many Delta there are, one coordinate of phi each.
        tensors: Names of the parameters and buffers that change, or patterns of them; all floating ones if None.
        strength: Spread of a random Delta, as a share of that of the weights it moves.

    Example:
        >>> from metricopt.adapters import adapt
        >>> net, finetuned = nn.Linear(2, 1), nn.Linear(2, 1)
        >>> model = adapt(net, WeightDirections())
        >>> model.modulations[0].set_changes(0, changes(net, finetuned.state_dict()))
        >>> x = torch.ones(3, 2)
        >>> torch.equal(model(x), net(x)), torch.allclose(model.output(torch.ones(1), x), finetuned(x))
        (True, True)
    """

    directions: int = 1
    tensors: tuple[str, ...] | None = None
    strength: float = 0.1

    def __post_init__(self) -> None:
        if self.directions < 1:
            raise AdapterError(f"directions is {self.directions}; expected 1 or more changes of the weights")
        object.__setattr__(self, "tensors", patterns(self.tensors))

    def bind(self, found: Survey, generator: Generator) -> "WeightModulation":
        """Its modulation of the network that was surveyed."""
        names = [
            name
            for name in found.tensors
            if self.tensors is None or any(fnmatchcase(name, pattern) for pattern in self.tensors)
        ]
        if not names:
            raise AdapterError(
                f"no weight is called {', '.join(self.tensors or ('anything',))}; expected names such as "
                f"{', '.join(list(found.tensors)[:5]) or 'those of a network with weights'}"
            )
        modulation = WeightModulation(self.directions, {name: found.tensors[name] for name in names})
        modulation.draw({name: _spread(found.tensors[name]) for name in names}, self.strength, generator)
        return modulation


# Called, not decorating: the registry's decorator would hide the class's own arguments from type checkers.
ADAPTERS.add("weight_directions")(WeightDirections)


class MovedWeights(Modulation):
    """What acts on the network's weights alone: it says where they are moved to, and merging writes them there.

    Attributes:
        names: Names of the tensors that change.
    """

    moves_weights = True
    names: tuple[str, ...] = ()

    def hooks(self, phi: Tensor) -> dict[str, Hook]:  # noqa: ARG002
        """None: it acts on weights."""
        return {}

    def on_output(self, phi: Tensor, output: Any) -> Any:  # noqa: ARG002
        """The output as it is."""
        return output

    def fold(self, phi: Tensor, net: nn.Module) -> None:
        """Add the changes to the weights."""
        own = weights_of(net)
        for name, tensor in self.moved(phi, own).items():
            own[name].data.copy_(tensor)


class WeightModulation(MovedWeights):
    """The network's weights moved along directions.

    Attributes:
        names: Names of the tensors that change.

    Example:
        >>> modulation = WeightModulation(2, {"weight": torch.ones(3)})
        >>> modulation.set_changes(1, {"weight": torch.full((3,), 0.5)})
        >>> modulation.moved(torch.tensor([0.0, 2.0]), {"weight": torch.ones(3)})
        {'weight': tensor([2., 2., 2.])}
    """

    def __init__(self, directions: int, tensors: State) -> None:
        super().__init__()
        self.dim = directions
        self.names = tuple(tensors)
        for place, tensor in enumerate(tensors.values()):  # names with dots cannot be names of buffers
            self.register_buffer(f"change_{place}", tensor.new_zeros(directions, *tensor.shape))

    def draw(self, spreads: Mapping[str, float], strength: float, generator: Generator) -> None:
        """Make all Delta random, in proportion to the spread of each tensor."""
        for place, name in enumerate(self.names):
            change = self._change(place)
            change.copy_(torch.randn(change.shape, generator=generator) * strength * spreads[name])

    def set_changes(self, direction: int, changed: State) -> None:
        """Take over one Delta; tensors that are not named stay where they are."""
        for place, name in enumerate(self.names):
            change = self._change(place)
            change[direction] = changed[name].to(change) if name in changed else 0.0

    def moved(self, phi: Tensor, original: State) -> dict[str, Tensor]:
        """The tensors at `phi` (directions,); variances stay positive.

        Differentiable in phi, but for statistics of normalisation, through which torch passes no gradient.
        """
        found = {}
        for place, name in enumerate(self.names):
            before = original[name]
            change = self._change(place)
            amounts = (phi.detach() if name.endswith(_STATISTICS) else phi).to(change)
            after = added(before, torch.tensordot(amounts, change, 1))
            if name.endswith("running_var"):
                after = torch.maximum(after, before.clamp(max=_LEAST_VARIANCE))
            found[name] = after
        return found

    def _change(self, place: int) -> Tensor:
        return self.get_buffer(f"change_{place}")


def weights_of(net: nn.Module) -> dict[str, Tensor]:
    """Floating parameters and buffers by name, shared ones once.

    Example:
        >>> list(weights_of(nn.BatchNorm1d(2)))
        ['weight', 'bias', 'running_mean', 'running_var']
    """
    every = [*net.named_parameters(), *net.named_buffers()]
    return {name: tensor for name, tensor in every if tensor.is_floating_point()}


def added(before: Tensor, change: Tensor) -> Tensor:
    """Weights with a change, of the type they were, added in the finer of the two types.

    Example:
        >>> added(torch.ones(1, dtype=torch.bfloat16), torch.tensor([0.5]))
        tensor([1.5000], dtype=torch.bfloat16)
    """
    return (before + change).to(before.dtype)


def _spread(tensor: Tensor) -> float:
    weights = tensor.detach().float()
    return (float(weights.std()) if weights.numel() > 1 else 0.0) or 1.0


def changes(net: nn.Module, finetuned: State) -> dict[str, Tensor]:
    """By how much the weights of a finetuned network differ from those of `net`.

    Example:
        >>> net = nn.Linear(2, 1)
        >>> float(changes(net, {"bias": net.bias.detach() + 1})["bias"])
        1.0
    """
    own = weights_of(net)
    return {name: tensor.detach() - own[name].detach() for name, tensor in finetuned.items() if name in own}


@contextmanager
def weights_swapped(net: nn.Module, tensors: State) -> Iterator[None]:
    """Within this context the network computes with other weights; `torch.func.functional_call` for any method.

    Example:
        >>> net = nn.Linear(2, 1, bias=False)
        >>> with weights_swapped(net, {"weight": torch.ones(1, 2)}):
        ...     inside = net(torch.ones(2))
        >>> float(inside), net.weight.requires_grad
        (2.0, True)
    """
    if not tensors:
        yield
        return
    wanted = {id(tensor): tensors[name] for name, tensor in weights_of(net).items() if name in tensors}
    places = _places(net, wanted)
    try:
        for held, leaf, tensor in places:
            held[leaf] = wanted[id(tensor)]
        yield
    finally:
        for held, leaf, tensor in places:
            held[leaf] = tensor


def _places(net: nn.Module, wanted: Mapping[int, Tensor]) -> Sequence[tuple[dict[str, Any], str, Tensor]]:
    """Where modules hold the tensors, several places for one that is shared."""
    return [
        (held, leaf, tensor)
        for module in net.modules()
        for held in (module._parameters, module._buffers)
        for leaf, tensor in held.items()
        if tensor is not None and id(tensor) in wanted
    ]
