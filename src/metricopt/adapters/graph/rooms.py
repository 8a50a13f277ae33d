"""Room for rows of activations: unfilled tensors in memory or in files."""

import tempfile

import numpy as np
import torch
from torch import Tensor


def in_memory(rows: int, like: Tensor) -> Tensor:
    """An unfilled tensor of so many rows."""
    return _like(like, like.new_empty(rows * like[0].numel()))


def in_a_file(rows: int, like: Tensor) -> Tensor:
    """An unfilled tensor whose memory is a file without a name, which the system removes with the last reader."""
    with tempfile.TemporaryFile() as file:
        flat = np.memmap(file, mode="w+", dtype=like.numpy().dtype, shape=(rows * like[0].numel(),))
    return _like(like, torch.from_numpy(flat))


def _like(sample: Tensor, flat: Tensor) -> Tensor:
    """Flat memory as rows of the sample's shape, with their numbers in the same order in memory."""
    if sample.dim() == 4 and sample.is_contiguous(memory_format=torch.channels_last):
        _, channels, height, width = sample.shape
        return flat.view(-1, height, width, channels).permute(0, 3, 1, 2)
    return flat.view(-1, *sample.shape[1:])
