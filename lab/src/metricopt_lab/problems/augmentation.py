"""Images seen mirrored and shifted, all of a batch in one look-up."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.nn import functional

SHIFT = 4
"""Pixels that an image may be shifted by in each direction, as in He et al. 2016."""


@final
@dataclass(frozen=True)
class Views:
    """Which images to look at and how; the same length in each field.

    Attributes:
        rows: Positions of images.
        mirrored: Whether left and right are exchanged, or None for images as they are.
        shifts: Pixels down and to the right, -4 .. 4, (images, 2), or None.

    Example:
        >>> image = torch.arange(4.0).view(1, 1, 1, 4)
        >>> Views(torch.tensor([0]), torch.tensor([True]), torch.tensor([[0, 0]])).of(image).flatten().tolist()
        [3.0, 2.0, 1.0, 0.0]
        >>> Views(torch.tensor([0]), torch.tensor([False]), torch.tensor([[0, 1]])).of(image).flatten().tolist()
        [0.0, 0.0, 1.0, 2.0]
    """

    rows: Tensor
    mirrored: Tensor | None = None
    shifts: Tensor | None = None

    def some(self, which: slice) -> "Views":
        """A part of them."""
        return Views(
            self.rows[which],
            None if self.mirrored is None else self.mirrored[which],
            None if self.shifts is None else self.shifts[which],
        )

    def of(self, images: Tensor) -> Tensor:
        """The views of images (all, channels, height, width), channels-last in memory, with zeros moved in."""
        chosen = images[self.rows.to(images.device)]
        if self.mirrored is None or self.shifts is None:
            return chosen.contiguous(memory_format=torch.channels_last)
        height, width = images.shape[2:]
        down, right = SHIFT - self.shifts.T.unsqueeze(2)  # (n, 1) each: where the window begins
        columns = torch.arange(width).expand(len(chosen), width)
        columns = torch.where(self.mirrored.unsqueeze(1), columns.flip(1), columns) + right  # (n, width)
        lines = torch.arange(height) + down  # (n, height)
        padded = functional.pad(chosen, (SHIFT, SHIFT, SHIFT, SHIFT)).permute(0, 2, 3, 1)
        which = torch.arange(len(chosen))[:, None, None]
        index = tuple(part.to(images.device) for part in (which, lines.unsqueeze(2), columns.unsqueeze(1)))
        return padded[index].permute(0, 3, 1, 2)  # a view: channels-last as it is


def plain_views(rows: Tensor) -> Views:
    """Images as they are.

    Example:
        >>> plain_views(torch.tensor([1])).of(torch.tensor([[[[5.0]]], [[[7.0]]]])).item()
        7.0
    """
    return Views(rows)


def random_views(rows: Tensor, generator: torch.Generator) -> Views:
    """Each image mirrored or not, and shifted by up to 4 pixels.

    Example:
        >>> views = random_views(torch.arange(100), torch.Generator().manual_seed(0))
        >>> int(views.mirrored.sum()) in range(30, 71), views.shifts.min().item(), views.shifts.max().item()
        (True, -4, 4)
    """
    mirrored = torch.rand(len(rows), generator=generator) < 0.5
    return Views(rows, mirrored, torch.randint(-SHIFT, SHIFT + 1, (len(rows), 2), generator=generator))
