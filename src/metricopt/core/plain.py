"""Tensors and records as plain data that JSON can hold, and back."""

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from metricopt.core.errors import FileFormatError


def packed(tensor: Tensor) -> dict[str, Any]:
    """A tensor as plain data for JSON, in float32.

    Example:
        >>> packed(torch.tensor([1.0, 2.0]))
        {'shape': [2], 'float32': 'AACAPwAAAEA='}
    """
    array = tensor.detach().cpu().float().contiguous()
    return {"shape": list(array.shape), "float32": base64.b64encode(array.numpy().tobytes()).decode()}


def unpacked(data: Any) -> Tensor:
    """The tensor that `packed` made plain data of.

    Example:
        >>> unpacked(packed(torch.eye(2))).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    try:
        shape, content = [int(size) for size in data["shape"]], base64.b64decode(data["float32"], validate=True)
        if any(size < 0 for size in shape) or len(content) != 4 * math.prod(shape):
            raise ValueError(f"{len(content)} bytes for shape {shape}")
        numbers = torch.frombuffer(bytearray(content), dtype=torch.float32) if content else torch.zeros(0)
        return numbers.reshape(shape)
    except (TypeError, KeyError, ValueError, OverflowError, RuntimeError) as error:
        raise FileFormatError(f"a stored array is damaged ({error}); expected shape and float32 numbers") from error


def plain(value: Any) -> Any:
    """Data that JSON can hold: tensors packed, NaN and infinities as null."""
    if isinstance(value, Tensor):
        return packed(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def as_json(data: Any) -> str:
    """Plain data as JSON text, with null for numbers that are none.

    Example:
        >>> as_json([1.0, float("inf")]).split()
        ['[', '1.0,', 'null', ']']
    """
    return json.dumps(plain(data), indent=2, allow_nan=False)
