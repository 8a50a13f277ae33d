"""An adapter folded into the weights of a copy of its network, or, where that is impossible, computed after it."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from metricopt.adapters.computing import Followed, Merged
from metricopt.adapters.freezing import Flags
from metricopt.adapters.spec import Modulation, Parts
from metricopt.core.errors import AdapterError
from metricopt.core.reading import Reader
from metricopt.core.tree import Tree, opened, tensors_of


def merged(
    net: nn.Module, parts: Parts, flags: Flags, reader: Reader | None, *, compare: Callable[[nn.Module], None]
) -> tuple[nn.Module, str]:
    """A copy of `net` that computes what the modulations do, and one sentence if not all is folded into weights.

    Args:
        net: The network.
        parts: The modulations, each with its part of phi.
        flags: Modes of the network before it was frozen.
        reader: Which tensor of the output is modulated.
        compare: Raises unless what is computed is the same.
    """
    ways = (
        lambda: folded(net, parts, flags),
        lambda: partly(net, parts, flags, reader),
        lambda: computed(net, parts, flags, reader),
    )
    refusals: list[AdapterError] = []
    for way in ways:
        try:
            copied = way()
            compare(copied)
        except AdapterError as error:
            refusals.append(error)
        else:
            return copied, _said(refusals)
    raise refusals[0]


def _said(refusals: list[AdapterError]) -> str:
    if not refusals:
        return ""
    return f"the adapter cannot be folded into the weights, so merge gives a module that computes it: {refusals[0]}"


def folded(net: nn.Module, parts: Parts, flags: Flags) -> nn.Module:
    """A copy of `net`, in eval mode, with each modulation at its part of phi written into the weights.

    Example:
        >>> from metricopt.adapters import DynamicBias, adapt
        >>> model = adapt(nn.Sequential(nn.Linear(4, 3)), DynamicBias(dim=2))
        >>> folded(model.net, [(model.modulations[0], model.phi.detach())], Flags({}, {}))
        Sequential(
          (0): Linear(in_features=4, out_features=3, bias=True)
        )
    """
    plain = _plain(net, flags)
    # Weights move first and the output last, whatever the order of the sum: so it is when the model computes.
    for modulation, phi in sorted(parts, key=lambda part: (part[0].acts_on_output, not part[0].moves_weights)):
        _fold(modulation, phi, plain)
    return plain


def computed(net: nn.Module, parts: Parts, flags: Flags, reader: Reader | None) -> nn.Module:
    """A copy of `net` that computes what the modulations do: layers are followed by them, the output is finished.

    Example:
        >>> from metricopt.adapters import DynamicBias, adapt
        >>> model = adapt(nn.Sequential(nn.Linear(4, 3)), DynamicBias(dim=2))
        >>> parts = [(model.modulations[0], model.phi.detach())]
        >>> type(computed(model.net, parts, Flags({}, {}), None)[0]).__name__
        'Followed'
    """
    plain = folded(net, [part for part in parts if part[0].moves_weights], flags)
    for modulation, phi in parts:
        for name in modulation.layers:
            if not name:
                plain = Followed(plain, modulation, phi, name)
            else:
                parent, _, own = name.rpartition(".")
                holder = plain.get_submodule(parent)
                setattr(holder, own, Followed(holder.get_submodule(own), modulation, phi, name))
    last = [part for part in parts if part[0].acts_on_output]
    return Merged(plain, last, reader or Reader()).eval() if last else plain.eval()


def partly(net: nn.Module, parts: Parts, flags: Flags, reader: Reader | None) -> nn.Module:
    """A copy of `net` with the layers' modulations folded and the output's computed.

    Example:
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> model = adapt(nn.Sequential(nn.Linear(4, 3), nn.Tanh()), OutputAffine())
        >>> type(partly(model.net, [(model.modulations[0], model.phi.detach())], Flags({}, {}), None)).__name__
        'Merged'
    """
    plain = folded(net, [part for part in parts if not part[0].acts_on_output], flags)
    last = [part for part in parts if part[0].acts_on_output]
    return Merged(plain, last, reader or Reader()).eval() if last else plain


def check_same(merged: object, adapted: object) -> None:
    """Raise unless two outputs agree up to the rounding of folded weights."""
    found, expected = opened(merged), opened(adapted)
    floating = [tensor for tensor in tensors_of(expected) if tensor.is_floating_point()]
    if _are_detections(expected):
        difference, size = _between_detections(found, expected)
    else:
        difference, size = _between(tensors_of(found), tensors_of(expected))
    # Folded weights are rounded to the network's own type, whatever phi's.
    least = max([1e-3, *(8 * torch.finfo(tensor.dtype).eps for tensor in floating)])
    if not difference <= least * size:
        raise AdapterError(
            f"the merged network's outputs differ from the adapted one's by up to {difference:.3g} on the example; "
            f"expected less than {least * size:.3g}: something follows the last layer, so name the layer that gives "
            f"the output in OutputAffine(layer=...), or use the adapted model as it is"
        )


def _between(found: Sequence[Tensor], expected: Sequence[Tensor]) -> tuple[float, float]:
    """The largest difference of tensors of the same shape, and how large their numbers are."""
    pairs = [
        (one.double(), other.double())
        for one, other in zip(found, expected, strict=False)
        if one.shape == other.shape and one.numel()
    ]
    if not pairs:
        return 0.0, 1.0
    difference = max(float((one - other).abs().max()) for one, other in pairs)
    return difference, 1 + max(float(other.abs().max()) for _, other in pairs)


def _are_detections(output: Tree) -> bool:
    keys = {"boxes", "scores", "labels"}
    return isinstance(output, list) and all(isinstance(one, Mapping) and keys <= one.keys() for one in output)


def _between_detections(found: Any, expected: Any) -> tuple[float, float]:
    """How far the partner of an expected box is, for nine of ten boxes, and how large the numbers are.

    Boxes come in the order of their scores, which rounding may change, and at the edge of a threshold one may be lost.
    """
    gaps = [torch.zeros(0)]
    for one, other in zip(found, expected, strict=True):
        corners = (other["boxes"][:, None] - one["boxes"]).abs().amax(-1)  # (expected, found)
        gap = corners + (other["scores"][:, None] - one["scores"]).abs()
        gap = gap.masked_fill(other["labels"][:, None] != one["labels"], torch.inf)
        gaps.append(functional.pad(gap, (0, 1), value=torch.inf).amin(1))
    every = torch.cat([gap.cpu() for gap in gaps])
    size = 1 + max([float(one["boxes"].abs().max()) for one in expected if len(one["boxes"])], default=0.0)
    return float(every.quantile(0.9, interpolation="lower")) if len(every) else 0.0, size


def _plain(net: nn.Module, flags: Flags) -> nn.Module:
    plain = copy.deepcopy(net)
    for name, parameter in plain.named_parameters():
        parameter.requires_grad_(flags.requires_grad.get(name, True))
    return plain


def _fold(modulation: Modulation, phi: Tensor, net: nn.Module) -> None:
    try:
        modulation.fold(phi, net)
    except (KeyError, AttributeError, TypeError) as error:  # weights that are computed from others, as weight_norm's
        raise AdapterError(
            f"a layer's weights cannot be written ({error!r:.100}); expected plain parameters"
        ) from error
