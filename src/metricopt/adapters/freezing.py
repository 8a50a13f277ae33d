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


def coarse(net: nn.Module) -> torch.dtype | None:
    """The type of half precision that a network has parameters of, too coarse for small steps; None if it has none.

    Example:
        >>> coarse(nn.Linear(2, 1).bfloat16()), coarse(nn.Linear(2, 1))
        (torch.bfloat16, None)
    """
    return next((p.dtype for p in net.parameters() if p.dtype in (torch.float16, torch.bfloat16)), None)


def spread_out(net: nn.Module) -> bool:
    """Whether a network is on several devices.

    Example:
        >>> spread_out(nn.Linear(2, 1))
        False
    """
    return len({parameter.device for parameter in net.parameters()}) > 1


def packed(net: nn.Module) -> str:
    """The first layer whose weights are quantised or sharded, and its kind; empty if there is none.

    Such weights cannot take small steps, and what computes with them has seldom a rule for several phi at once.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 1), nn.Linear(1, 1))
        >>> net[1].weight = nn.Parameter(torch.ones(1, 1, dtype=torch.int8), requires_grad=False)
        >>> packed(net), packed(net[0])
        ("'1' (Linear)", '')
    """
    for name, module in net.named_modules():
        own = list(module.parameters(recurse=False))
        if ".quantized." in type(module).__module__ or any(map(_unusual, own)):
            return f"{name!r} ({type(module).__name__})"
    return ""


def _unusual(parameter: nn.Parameter) -> bool:
    """Whether it holds no plain floating tensor: codes of numbers, or a tensor that lives in parts elsewhere."""
    return not parameter.is_floating_point() or type(parameter.data) is not torch.Tensor


def placement(net: nn.Module) -> tuple[torch.device, torch.dtype]:
    """The device and floating type that a network takes inputs in: those of its first parameter.

    A network may be spread over several devices, as by a device map, as long as its weights are there.

    Example:
        >>> placement(nn.Linear(2, 1))
        (device(type='cpu'), torch.float32)
    """
    tensors = [t for t in (*net.parameters(), *net.buffers()) if t.is_floating_point()]
    away = [tensor for tensor in tensors if tensor.device.type == "meta"]
    if away:
        which = "the network is" if len(away) == len(tensors) else f"{len(away)} of {len(tensors)} weights are"
        raise AdapterError(f"{which} on the meta device, where it has shapes but no weights; load them first")
    return (tensors[0].device, tensors[0].dtype) if tensors else (torch.device("cpu"), torch.get_default_dtype())
