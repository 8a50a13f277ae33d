"""An adapter folded into the weights of a copy of its network."""

import copy
from collections.abc import Sequence

from torch import Tensor, nn

from metricopt.adapters.freezing import Flags
from metricopt.adapters.spec import Modulation
from metricopt.core.errors import AdapterError
from metricopt.core.tree import opened, tensors_of


def folded(net: nn.Module, parts: Sequence[tuple[Modulation, Tensor]], flags: Flags) -> nn.Module:
    """A copy of `net`, in eval mode, with each modulation at its part of phi written into the weights.

    Example:
        >>> from metricopt.adapters import DynamicBias, adapt
        >>> model = adapt(nn.Sequential(nn.Linear(4, 3)), DynamicBias(dim=2))
        >>> folded(model.net, [(model.modulations[0], model.phi.detach())], Flags({}, {}))
        Sequential(
          (0): Linear(in_features=4, out_features=3, bias=True)
        )
    """
    plain = copy.deepcopy(net)
    for name, parameter in plain.named_parameters():
        parameter.requires_grad_(flags.requires_grad.get(name, True))
    # Weights move first and the output last, whatever the order of the sum: so it is when the model computes.
    for modulation, phi in sorted(parts, key=lambda part: (part[0].acts_on_output, not part[0].moves_weights)):
        modulation.fold(phi, plain)
    return plain


def check_same(merged: object, adapted: object) -> None:
    """Raise unless two outputs agree up to the rounding of folded weights."""
    pairs = [
        (one.double(), other.double())
        for one, other in zip(tensors_of(opened(merged)), tensors_of(opened(adapted)), strict=False)
        if one.shape == other.shape and one.numel()
    ]
    if not pairs:
        return
    difference = max(float((one - other).abs().max()) for one, other in pairs)
    size = 1 + max(float(other.abs().max()) for _, other in pairs)
    if not difference <= 1e-3 * size:
        raise AdapterError(
            f"the merged network's outputs differ from the adapted one's by up to {difference:.3g} on the example; "
            f"expected less than {1e-3 * size:.3g}: something follows the last layer, so name the layer that gives the "
            f"output in OutputAffine(layer=...), or use the adapted model as it is"
        )
