"""A device that computes on the CPU and, like a GPU, refuses tensors of two devices in one operation.

It stands for CUDA where there is none: a tensor there has `device.type == "fake"` and reaches the CPU by `.cpu()` only;
meeting a CPU tensor (of one dimension or more, except as an index) is an error. It is registered for the whole
process, so it belongs in one of its own.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as tree
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "fake"
# What each storage of the device stands for; storages have no memory of their own.
_MEMORY: dict[int, Tensor] = {}
_LIBRARIES: list[torch.library.Library] = []
_COPIES = ("aten::_copy_from", "aten::_copy_from_and_resize")
_INDEXING = ("aten::index", "aten::_index_put")


def register() -> None:
    """Make the device known to torch."""
    _setup_privateuseone_for_python_backend(NAME)
    everything, aten = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    everything.fallback(_on_cpu, "PrivateUse1")
    # torch computes these by giving an empty tensor away to be resized, which this device's cannot be.
    for name in ("abs",):
        aten.impl(name, partial(_on_cpu, getattr(torch.ops.aten, name).default), "PrivateUse1")
    aten.impl("as_strided", lambda tensor, *strides: _held(_strided(_raw(tensor), *strides)), "PrivateUse1")
    aten.impl("convolution_overrideable", _convolution, "PrivateUse1")
    aten.impl("convolution_backward_overrideable", _convolution_backward, "PrivateUse1")
    _LIBRARIES.extend((everything, aten))
    ordinary = torch.Tensor.__deepcopy__
    torch.Tensor.__deepcopy__ = lambda tensor, memo: _copied(tensor, memo, ordinary)


def _held(raw: Tensor) -> Tensor:
    tensor = torch._C._acc.create_empty_tensor(raw.shape, raw.dtype)
    _MEMORY[tensor.untyped_storage()._cdata] = raw
    return tensor


def _raw(item: Any) -> Any:
    if isinstance(item, torch.device):
        return torch.device("cpu")
    if not isinstance(item, Tensor) or item.device.type != NAME:
        return item
    raw = _MEMORY[item.untyped_storage()._cdata]
    if raw.shape == item.shape and item.is_contiguous() and item.storage_offset() == 0:
        return raw
    return _strided(raw, item.shape, item.stride(), item.storage_offset())


def _strided(raw: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None = None) -> Tensor:
    """A view with strides and an offset that torch worked out for a contiguous tensor with memory of its own."""
    raw = raw.contiguous()
    return raw.as_strided(size, stride, raw.storage_offset() + (offset or 0))


def _on_cpu(operation: Any, *args: Any, **kwargs: Any) -> Any:
    name = operation._schema.name
    if name in _COPIES:
        _raw(args[1]).copy_(_raw(args[0]))
        return args[1]
    flat, spec = tree.tree_flatten((args, kwargs))
    hosts = [tuple(t.shape) for t in flat if isinstance(t, Tensor) and t.device.type == "cpu" and t.dim()]
    if hosts and not name.startswith(_INDEXING):
        raise RuntimeError(f"{name} was given CPU tensors of shapes {hosts} beside tensors of another device")
    raw = [_raw(item) for item in flat]
    args, kwargs = tree.tree_unflatten(raw, spec)
    same = {id(r): item for r, item in zip(raw, flat, strict=True) if isinstance(r, Tensor)}
    found = operation(*args, **kwargs)
    for item in (same[id(r)] for r in raw if isinstance(r, Tensor)):
        if item.device.type == NAME and _raw(item).shape != item.shape:
            raise NotImplementedError(f"{name} has resized an argument: register what has called it")
    return tree.tree_map_only(Tensor, lambda t: same[id(t)] if id(t) in same else _held(t), found)


def _convolution(*args: Any) -> Tensor:
    return _on_cpu(torch.ops.aten.convolution.default, *args)


def _convolution_backward(gradient: Tensor, x: Tensor, weight: Tensor, *rest: Any) -> Any:
    *options, mask = rest
    return _on_cpu(torch.ops.aten.convolution_backward.default, gradient, x, weight, None, *options, mask)


def _copied(tensor: Tensor, memo: dict[int, Any], ordinary: Any) -> Tensor:
    if tensor.device.type != NAME:
        return ordinary(tensor, memo)
    if id(tensor) not in memo:
        memo[id(tensor)] = tensor.detach().clone().requires_grad_(tensor.requires_grad)
    return memo[id(tensor)]
