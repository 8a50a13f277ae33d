"""The image data sets that networks for 32x32 images are trained on, by name."""

from metricopt.core.registry import one_of
from metricopt_lab import data
from metricopt_lab.data import Cifar10Split
from metricopt_lab.data.tiny_imagenet import tiny_imagenet_split

IMAGE_SETS = ("cifar10", "tinyimagenet")
"""Their names."""


def image_set(name: str) -> Cifar10Split:
    """Images of a data set in three parts.

    Example:
        >>> image_set("imagenet")
        Traceback (most recent call last):
        metricopt.core.errors.UnknownNameError: image data is 'imagenet'; expected ...: did you mean 'tinyimagenet'?
    """
    one_of(name, IMAGE_SETS, what="image data")
    return data.cifar10_split() if name == "cifar10" else tiny_imagenet_split()
