"""What a new microscope does to images: shifts of pixels (n, 3, height, width) in 0 .. 1, chosen before any search."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from metricopt.core.registry import Registry
from metricopt.core.seeding import stream

Shift = Callable[[Tensor], Tensor]

SHIFTS: Registry[Shift] = Registry("condition")
"""Conditions of Table 6 by name; the images as the detector was trained on are one of them."""

_STAIN = ((0.75, 0.15, 0.1), (0.1, 0.75, 0.15), (0.2, 0.1, 0.7))  # how much of each channel goes into each


@SHIFTS.add("as_trained")
def as_trained(pixels: Tensor) -> Tensor:
    """The images as they are.

    Example:
        >>> as_trained(torch.ones(1)).tolist()
        [1.0]
    """
    return pixels


@SHIFTS.add("pixel_noise")
def pixel_noise(pixels: Tensor) -> Tensor:
    """Gaussian noise of standard deviation 20 of 255 on every pixel.

    Example:
        >>> 0.07 < float((pixel_noise(torch.full((1, 3, 50, 50), 0.5)) - 0.5).std()) < 0.09
        True
    """
    noise = torch.randn(pixels.shape, generator=stream(0, "pixel noise"))
    return (pixels + 20 / 255 * noise).clamp(0, 1)


@SHIFTS.add("half_brightness")
def half_brightness(pixels: Tensor) -> Tensor:
    """Half as much light.

    Example:
        >>> half_brightness(torch.ones(1)).tolist()
        [0.5]
    """
    return pixels / 2


@SHIFTS.add("blur")
def blur(pixels: Tensor) -> Tensor:
    """Out of focus: the mean of 5 x 5 pixels, twice.

    Example:
        >>> blur(torch.ones(1, 3, 8, 8)).mean().item()
        1.0
    """
    for _ in range(2):
        pixels = functional.avg_pool2d(functional.pad(pixels, (2, 2, 2, 2), mode="replicate"), 5, 1)
    return pixels


@SHIFTS.add("other_stain")
def other_stain(pixels: Tensor) -> Tensor:
    """Another stain: channels are mixed, and contrast is lower.

    Example:
        >>> other_stain(torch.full((1, 3, 1, 1), 0.5)).flatten().tolist()
        [0.5, 0.5, 0.5]
    """
    mixed = torch.einsum("ij,njhw->nihw", torch.tensor(_STAIN), pixels)
    return 0.5 + 0.8 * (mixed - 0.5)
