"""A short hash of a network and its adapter, to refuse a value function learnt for another one."""

import hashlib
import json
from typing import Any

import torch
from torch import Tensor, nn


def fingerprint(net: nn.Module, modulations: nn.Module, spec: dict[str, Any]) -> str:
    """16 hexadecimal digits over names, shapes, types and bytes of all parameters and buffers, and the spec.

    Example:
        >>> net, nothing = nn.Linear(2, 1), nn.ModuleList()
        >>> before = fingerprint(net, nothing, {})
        >>> _ = net.weight.data.add_(1)
        >>> before == fingerprint(net, nothing, {})
        False
    """
    digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode())
    for module in (net, modulations):
        for name, tensor in sorted((*module.named_parameters(), *module.named_buffers())):
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
            digest.update(_bytes(tensor))
    return digest.hexdigest()[:16]


def _bytes(tensor: Tensor) -> bytes:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes()
