"""Named parameters as phi: LoRA matrices, norms, a head, or whatever a pattern names, directly or by a projection."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import sqrt
from typing import final

from torch import Generator, Tensor

from metricopt.adapters.layers import Survey
from metricopt.adapters.spec import ADAPTERS, SingleAdapter, checked_dim, patterns
from metricopt.adapters.weight_directions import MovedWeights, State, WeightModulation, added
from metricopt.core.errors import AdapterError

_MOST_NUMBERS = 2**29  # of a projection: 2 GiB


@dataclass(frozen=True)
class Parameters(SingleAdapter):
    """Parameters W named by patterns become W + strength * spread(W) * P phi, with a fixed random projection P.

    Attributes:
        names: Names of parameters, or patterns such as `"*lora_B*"` or `"*LayerNorm*"`.
        dim: Coordinates of phi, projected to all the numbers of the parameters; None for one coordinate a number.
        strength: Deviation of a number's change, as a share of the spread of its tensor, when the coordinates of phi
            have unit variance. A tensor of zeros, such as a fresh LoRA's B, counts as one newly initialised.

    Example:
        >>> from torch import nn
        >>> from metricopt.adapters import adapt
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 3))
        >>> adapt(net, Parameters("0.*", dim=5)).dim, adapt(net, Parameters(["1.weight", "2.bias"], dim=None)).dim
        (5, 11)
    """

    names: str | Sequence[str] = "*"
    dim: int | None = 64
    strength: float = 0.1

    def __post_init__(self) -> None:
        if self.dim is not None:
            checked_dim(self.dim)
        object.__setattr__(self, "names", patterns(self.names))

    def bind(self, found: Survey, generator: Generator) -> MovedWeights:
        """Its modulation of the network that was surveyed."""
        tensors = {name: found.tensors[name] for name in _matching(found, patterns(self.names) or ())}
        if self.dim is None:
            return ParameterCoordinates(tensors, self.strength)
        _check_size(self.dim, tensors)
        modulation = WeightModulation(self.dim, {name: tensor.float() for name, tensor in tensors.items()})
        spreads = {name: spread_of(tensor) for name, tensor in tensors.items()}
        modulation.draw(spreads, self.strength / sqrt(self.dim), generator)
        return modulation


# Called, not decorating: the registry's decorator would hide the class's own arguments from type checkers.
ADAPTERS.add("parameters")(Parameters)


@final
class ParameterCoordinates(MovedWeights):
    """One coordinate of phi for each number of some parameters.

    Attributes:
        names: Names of the parameters.

    Example:
        >>> import torch
        >>> modulation = ParameterCoordinates({"weight": torch.tensor([1.0, -1.0])}, strength=0.5)
        >>> moved = modulation.moved(torch.tensor([0.0, 1.0]), {"weight": torch.tensor([1.0, -1.0])})["weight"]
        >>> [round(number, 3) for number in moved.tolist()]
        [1.0, -0.293]
    """

    def __init__(self, tensors: State, strength: float) -> None:
        super().__init__()
        self.names = tuple(tensors)
        self._steps = [strength * spread_of(tensor) for tensor in tensors.values()]
        self._sizes = [tensor.numel() for tensor in tensors.values()]
        self.dim = sum(self._sizes)

    def moved(self, phi: Tensor, original: State) -> dict[str, Tensor]:
        """The parameters at `phi` (dim,)."""
        parts = zip(self.names, self._steps, phi.split(self._sizes), strict=True)
        return {name: added(original[name], step * part.view(original[name].shape)) for name, step, part in parts}


def spread_of(tensor: Tensor) -> float:
    """Standard deviation of a tensor's numbers or, if they are all equal, that of a newly initialised one.

    Example:
        >>> import torch
        >>> spread_of(torch.tensor([1.0, -1.0])), spread_of(torch.zeros(8, 4))
        (1.4142135381698608, 0.5)
    """
    spread = float(tensor.detach().float().std()) if tensor.numel() > 1 else 0.0
    return spread or 1 / sqrt(tensor.shape[-1] if tensor.dim() else 1)


def _matching(found: Survey, wanted: Sequence[str]) -> list[str]:
    """Names of parameters that match any of the patterns; each pattern must match one at least."""
    for pattern in wanted:
        if not any(fnmatchcase(name, pattern) for name in found.parameters):
            raise AdapterError(_unmatched(found, pattern))
    return [name for name in found.parameters if any(fnmatchcase(name, pattern) for pattern in wanted)]


def _unmatched(found: Survey, pattern: str) -> str:
    """What else may have been meant: a name, or a part of names between dots."""
    parts = dict.fromkeys(part for name in found.parameters for part in name.split("."))
    whole = difflib.get_close_matches(pattern, found.parameters, n=1, cutoff=0.7)
    near = whole or [f"*{part}*" for part in difflib.get_close_matches(pattern.strip("*."), parts, n=1, cutoff=0.5)]
    some = ", ".join(map(repr, found.parameters[:5])) or "no parameter of floating numbers"
    hint = f"did you mean {near[0]!r}?" if near else f"expected names such as {some}"
    return f"no parameter of the network is called {pattern!r}; {hint}"


def _check_size(dim: int, tensors: State) -> None:
    numbers = sum(tensor.numel() for tensor in tensors.values())
    if dim * numbers > _MOST_NUMBERS:
        raise AdapterError(
            f"a projection from dim={dim} to the {numbers} numbers of {len(tensors)} parameters takes "
            f"{dim * numbers / 2**28:.1f} GiB; expected less than 2: name fewer parameters, or lower dim"
        )
