"""Modules that compute what an adapter does, where no weights can take it in."""

import copy
from collections.abc import Sequence
from typing import Any, final

from torch import Tensor, nn

from metricopt.adapters.spec import Modulation
from metricopt.core.reading import Reader


@final
class Followed(nn.Module):
    """A layer and what becomes of its output.

    Attributes:
        layer: The layer as it was.
        modulation: What acts on its output.
        phi: At which vector, (dim,).
    """

    phi: Tensor

    def __init__(self, layer: nn.Module, modulation: Modulation, phi: Tensor, name: str) -> None:
        super().__init__()
        self.layer = layer
        self.modulation = copy.deepcopy(modulation)
        self.register_buffer("phi", phi.detach().clone())
        self._name = name

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """What the layer gives, modulated."""
        output = self.layer(*inputs, **named)
        return self.modulation.hooks(self.phi)[self._name](self.layer, inputs, output)

    def __getattr__(self, name: str) -> Any:
        """An attribute of its own, else of the layer: its owner may look at `weight` or `in_features`."""
        return _own_or(self, "layer", name)


@final
class Merged(nn.Module):
    """A network whose output is scaled and shifted as an adapter says; it holds no trace of the library's machinery.

    It can be pickled, exported and saved by its `state_dict` where the network can. What it does not have itself is
    the network's: `merged.config` is `merged.net.config`.

    Attributes:
        net: The network, with what could be folded into its weights.

    Example:
        >>> import torch
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.Softmax(dim=1))
        >>> model = adapt(net, OutputAffine())
        >>> modulation = model.modulations[0]
        >>> merged = Merged(net, [(modulation, torch.ones(6))], Reader())
        >>> torch.allclose(merged(torch.ones(1, 2)).sum(), torch.tensor(5.0)), sorted(merged.state_dict())
        (True, ['net.0.bias', 'net.0.weight', 'phi_0'])
    """

    def __init__(self, net: nn.Module, parts: Sequence[tuple[Modulation, Tensor]], reader: Reader) -> None:
        super().__init__()
        self.net = net
        self._parts = nn.ModuleList(copy.deepcopy(part) for part, _ in parts)
        for number, (_, phi) in enumerate(parts):
            self.register_buffer(f"phi_{number}", phi.detach().clone())
        self._reader = reader

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """What the network gives, with its output scaled and shifted."""
        output = self.net(*inputs, **named)
        tensor = self._reader(output)
        for number, part in enumerate(self._parts):
            assert isinstance(part, Modulation)
            tensor = part.on_output(getattr(self, f"phi_{number}"), tensor)
        return self._reader.put(output, tensor)

    def __getattr__(self, name: str) -> Any:
        """An attribute of its own, else of the network."""
        return _own_or(self, "net", name)


def _own_or(module: nn.Module, inner: str, name: str) -> Any:
    try:
        return nn.Module.__getattr__(module, name)
    except AttributeError:
        if name.startswith("__") or inner not in module.__dict__.get("_modules", {}):
            raise
        return getattr(module.__dict__["_modules"][inner], name)
