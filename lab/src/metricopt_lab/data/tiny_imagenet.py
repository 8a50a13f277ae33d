"""64 classes of Tiny ImageNet at 32 x 32, from a local copy: ImageNet's terms allow no other way."""

import hashlib
import os
from pathlib import Path

import numpy as np
import torch

from metricopt.core.errors import DataError
from metricopt.data.dataset import Examples
from metricopt_lab.data.archives import DAMAGE, npz_arrays

CLASSES = 64
SOURCE = "Tiny ImageNet (Stanford CS231n), 64 of its 200 classes, averaged to 32 x 32"
_MOST = 2**27  # bytes of an array
_PATH = Path("tinyimagenet", "tinyimagenet64.npz")


def tiny_imagenet_path() -> Path:
    """Where the local copy is looked for: METRICOPT_DATA/tinyimagenet/tinyimagenet64.npz.

    Example:
        >>> tiny_imagenet_path().name
        'tinyimagenet64.npz'
    """
    return Path(os.environ.get("METRICOPT_DATA", "data")) / _PATH


def tiny_imagenet() -> tuple[Examples, Examples]:
    """Images to train on, 300 a class, and to test on, 50 a class, (n, 3, 32, 32), standardised by channel."""
    path = tiny_imagenet_path()
    if not path.exists():
        raise DataError(
            f"{path} is not there; expected arrays x_train, y_train, x_test and y_test of {CLASSES} classes: put your "
            f"copy of Tiny ImageNet there, whose terms forbid that we ship it"
        )
    try:
        x_train, y_train, x_test, y_test = npz_arrays(path, ("x_train", "y_train", "x_test", "y_test"), most=_MOST)
        mean, std = _moments(x_train)
        train, test = (
            _examples((x / np.float32(255) - mean) / std, y) for x, y in ((x_train, y_train), (x_test, y_test))
        )
    except DAMAGE as error:
        why = " ".join(str(error).split())[:200]
        raise DataError(
            f"{path} cannot be read ({why}); expected images as uint8 (n, 32, 32, 3): copy it anew"
        ) from error
    return train, test


def fingerprint() -> str:
    """Of the file."""
    return hashlib.sha256(tiny_imagenet_path().read_bytes()).hexdigest()


def _examples(images: np.ndarray, classes: np.ndarray) -> Examples:
    return Examples(torch.from_numpy(images).permute(0, 3, 1, 2), torch.tensor(classes.tolist()))


def _moments(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    some = pixels[::10].astype(np.float32) / 255
    return some.mean((0, 1, 2)), some.std((0, 1, 2))
