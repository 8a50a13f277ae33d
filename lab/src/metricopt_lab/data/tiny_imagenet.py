"""64 classes of Tiny ImageNet at 32x32, from the folder a user brings: ImageNet's terms do not let us ship it."""

import hashlib
import os
from functools import cache
from pathlib import Path

import torch

from metricopt.core.errors import DataError
from metricopt.core.seeding import stream
from metricopt.data.dataset import Examples
from metricopt.data.images import Images
from metricopt_lab.data.archives import DAMAGE, npz_arrays
from metricopt_lab.data.cifar10 import Cifar10Split

FILE = "tinyimagenet64.npz"
SHA256 = "1d42e41fea8593f793bf95c2770dfdfe81a22cc701d4f511b6983ed1770b44ad"
"""Of the file."""
SOURCE = "Le, Y. and Yang, X. (2015), Tiny ImageNet Visual Recognition Challenge; 64 of its classes, 32x32"
MEAN = (121.52, 113.36, 101.44)
STD = (67.45, 65.24, 68.48)
"""What `tiny_imagenet_split` normalises by: of its training images."""
CLASSES, HELD = 64, 50

_MOST = 2**27  # bytes of an array


def tiny_imagenet_split() -> Cifar10Split:
    """16,000 training, 3,200 validation (50 a class) and 3,200 test images, normalised.

    The test images are the 50 a class that Tiny ImageNet calls its validation images; its own test labels are secret.

    Example:
        >>> [len(part) for part in tiny_imagenet_split()]  # doctest: +SKIP
        [16000, 3200, 3200]
    """
    train, test = _read(_found())
    held = held_out(train.labels)
    kept = torch.ones(len(train.labels), dtype=torch.bool)
    kept[held] = False
    parts = (train.rows(kept.nonzero().flatten()), train.rows(held), test)
    return Cifar10Split(*(part.examples(mean=MEAN, std=STD) for part in parts))


def tiny_imagenet() -> tuple[Examples, Examples]:
    """All 19,200 training images, 300 a class, and 3,200 test images, 50 a class, normalised.

    Example:
        >>> [len(part) for part in tiny_imagenet()]  # doctest: +SKIP
        [19200, 3200]
    """
    train, test = (part.examples(mean=MEAN, std=STD) for part in _read(_found()))
    return train, test


def held_out(labels: torch.Tensor, *, each: int = HELD) -> torch.Tensor:
    """Positions of so many images of each class, drawn once and for all.

    Example:
        >>> torch.arange(9).remainder(3)[held_out(torch.arange(9).remainder(3), each=1)].tolist()
        [0, 1, 2]
    """
    order = torch.randperm(len(labels), generator=stream(0, "tiny imagenet", "validation"))
    return torch.cat([order[labels[order] == label][:each] for label in labels.unique().tolist()])


def has_tiny_imagenet() -> bool:
    """Whether the folder that METRICOPT_DATA names has it.

    Example:
        >>> isinstance(has_tiny_imagenet(), bool)
        True
    """
    return _path() is not None


def _path() -> Path | None:
    folder = os.environ.get("METRICOPT_DATA")
    places = (Path(folder), Path(folder, "tinyimagenet")) if folder else ()
    return next((place / FILE for place in places if (place / FILE).exists()), None)


def _found() -> Path:
    path = _path()
    if path is None:
        raise DataError(
            f"{FILE} is not in the folder METRICOPT_DATA (now {os.environ.get('METRICOPT_DATA')!r}) nor in its folder "
            f"tinyimagenet; expected arrays x_train, y_train, x_test, y_test of 64 classes, bytes of 32x32: bring it"
        )
    return path


@cache
def _read(path: Path) -> tuple[Images, Images]:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != SHA256:
        raise DataError(f"{path} has the SHA-256 {found[:16]}...; expected {SHA256[:16]}...: bring the file again")
    try:
        arrays = npz_arrays(path, ("x_train", "x_test", "y_train", "y_test"), most=_MOST)
        pixels = [torch.from_numpy(array.transpose(0, 3, 1, 2).copy()) for array in arrays[:2]]
        labels = [torch.from_numpy(array.astype("int64")) for array in arrays[2:]]
    except DAMAGE as error:
        raise DataError(
            f"{path} cannot be read ({error}); expected 64 classes of Tiny ImageNet: bring it again"
        ) from error
    names = tuple(str(label) for label in range(CLASSES))
    return Images(pixels[0], labels[0], names), Images(pixels[1], labels[1], names)
