"""Queries whose nearest answer is right with one network and wrong with another, kept as small pictures."""

import base64
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from metricopt.data.dataset import Examples

SHOWN = 5
"""Queries won, and as many lost."""


def changed(embeddings: Tensor, data: Examples) -> dict[str, Any]:
    """For some queries won and lost: the query, the answer before and the answer after, as packed pictures.

    Args:
        embeddings: Of the original and of the new network, (2, n, d).
        data: The images and their classes.
    """
    nearest = torch.stack([_nearest(each) for each in embeddings])
    before, after = data.targets[nearest] == data.targets
    found: dict[str, Any] = {"queries": len(data)}
    for name, rows in (("won", ~before & after), ("lost", before & ~after)):
        which = rows.nonzero()[:, 0]
        some = which[torch.linspace(0, len(which) - 1, min(SHOWN, len(which))).round().long()] if len(which) else which
        triples = [[int(row), int(nearest[0, row]), int(nearest[1, row])] for row in some]
        found[name] = [[packed(data.inputs[row, 0]) for row in triple] for triple in triples]
        found[f"{name}_count"] = int(rows.sum())
    return found


def packed(image: Tensor) -> str:
    """An image (height, width) from 0 to 1 in sixteen shades, as text.

    Example:
        >>> unpacked(packed(torch.eye(3)), 3).tolist()
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    shades = (image.clamp(0, 1) * 15).round().to(torch.uint8).flatten().numpy()
    shades = np.append(shades, np.zeros(len(shades) % 2, np.uint8))
    return base64.b64encode((16 * shades[::2] + shades[1::2]).tobytes()).decode()


def unpacked(text: str, side: int) -> np.ndarray:
    """The image that `packed` made text of, (side, side)."""
    both = np.frombuffer(base64.b64decode(text), np.uint8)
    return np.stack([both // 16, both % 16], 1).ravel()[: side * side].reshape(side, side) / 15


def _nearest(embeddings: Tensor) -> Tensor:
    """Number of each row's nearest other one by cosine, (n,)."""
    unit = functional.normalize(embeddings, dim=1)
    found = []
    for start in range(0, len(unit), 512):
        near = unit[start : start + 512] @ unit.T
        near[torch.arange(len(near)), torch.arange(start, start + len(near))] = -torch.inf
        found.append(near.argmax(1))
    return torch.cat(found)
