"""A network's flags: checked and switched when it is frozen, put back when it is released."""

from dataclasses import dataclass

import torch
from torch import nn

from metricopt.core.errors import AdapterError


@dataclass(frozen=True)
class Flags:
    """What a network's flags were: which parameters require gradients, which modules were in training mode."""

    requires_grad: dict[str, bool]
    training: dict[str, bool]


def freeze(net: nn.Module) -> Flags:
    """Switch to eval mode without gradients; the flags as they were.

    Example:
        >>> net = nn.Linear(2, 1)
        >>> flags = freeze(net)
        >>> net.training, net.weight.requires_grad, flags.training
        (False, False, {'': True})
    """
    flags = Flags(
        {name: parameter.requires_grad for name, parameter in net.named_parameters()},
        {name: module.training for name, module in net.named_modules()},
    )
    # In train mode BatchNorm would cancel any shift before it, and its statistics would drift.
    net.eval().requires_grad_(False)
    return flags


def release(net: nn.Module, flags: Flags) -> None:
    """Put the flags back.

    Example:
        >>> net = nn.Linear(2, 1)
        >>> release(net, freeze(net))
        >>> net.training, net.weight.requires_grad
        (True, True)
    """
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(flags.requires_grad.get(name, True))
    for name, module in net.named_modules():
        module.training = flags.training[name]


def placement(net: nn.Module) -> tuple[torch.device, torch.dtype]:
    """The one device and the floating type of a network's parameters; a sentence if it cannot be adapted.

    Example:
        >>> placement(nn.Linear(2, 1))
        (device(type='cpu'), torch.float32)
    """
    tensors = [t for t in (*net.parameters(), *net.buffers()) if t.is_floating_point()]
    devices = {str(tensor.device) for tensor in tensors}
    if len(devices) > 1:
        raise AdapterError(
            f"the network is spread over {', '.join(sorted(devices))}; expected one device: move it there"
        )
    if devices == {"meta"}:
        raise AdapterError("the network is on the meta device, where it has shapes but no weights; load them first")
    half = [t.dtype for t in tensors if t.dtype in (torch.float16, torch.bfloat16)]
    if half:
        raise AdapterError(
            f"the network has parameters of type {half[0]}, too coarse for small steps of phi; use net.float(), and "
            f"torch.autocast around the calls if speed is needed"
        )
    return (tensors[0].device, tensors[0].dtype) if tensors else (torch.device("cpu"), torch.get_default_dtype())
