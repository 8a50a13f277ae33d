"""What may happen to images after a network was trained: kinds of disturbance, each by one rule and one strength."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from metricopt.core.registry import Registry

Shift = Callable[[Tensor, torch.Generator], Tensor]
"""From images (n, 1, height, width), ink 1 on paper 0, and a generator to images of the same shape."""

SHIFTS: Registry[Shift] = Registry("shift")
"""The kinds by name. Settings were tried out on erased and thin; the others are what is reported."""


@SHIFTS.add("clean")
def clean(images: Tensor, generator: torch.Generator) -> Tensor:  # noqa: ARG001
    """Images as the network was trained on."""
    return images


@SHIFTS.add("salt")
def salt(images: Tensor, generator: torch.Generator) -> Tensor:
    """3% of the pixels are ink.

    Example:
        >>> round(float(salt(torch.zeros(10, 1, 35, 35), torch.Generator().manual_seed(0)).mean()), 2)
        0.03
    """
    return torch.where(torch.rand(images.shape, generator=generator) < 0.03, 1.0, images)


@SHIFTS.add("blur")
def blur(images: Tensor, generator: torch.Generator) -> Tensor:  # noqa: ARG001
    """Each pixel is the mean of 5 x 5."""
    return functional.avg_pool2d(images, 5, stride=1, padding=2)


@SHIFTS.add("thick")
def thick(images: Tensor, generator: torch.Generator) -> Tensor:  # noqa: ARG001
    """Each pixel is the darkest of 3 x 3: strokes are two pixels wider."""
    return functional.max_pool2d(images, 3, stride=1, padding=1)


@SHIFTS.add("erased")
def erased(images: Tensor, generator: torch.Generator) -> Tensor:
    """30% of the pixels are paper."""
    return torch.where(torch.rand(images.shape, generator=generator) < 0.3, 0.0, images)


@SHIFTS.add("thin")
def thin(images: Tensor, generator: torch.Generator) -> Tensor:  # noqa: ARG001
    """Each pixel is the lightest of 2 x 2: strokes are a pixel narrower."""
    padded = functional.pad(images, (0, 1, 0, 1))
    return -functional.max_pool2d(-padded, 2, stride=1)
