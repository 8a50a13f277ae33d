"""Omniglot at 35 x 35: from a local copy, the cache, or the archives of its home, each drawing averaged 3 x 3."""

import hashlib
import io
import os
import zipfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from metricopt.core.errors import DataError
from metricopt_lab.data.archives import DAMAGE, bounded, npz_arrays
from metricopt_lab.data.download import cache_folder, fetch, keep

HOME = "https://github.com/brendenlake/omniglot/raw/master/python/"
ARCHIVES = ("images_background.zip", "images_evaluation.zip")
SOURCE = "Lake, B. M., Salakhutdinov, R. and Tenenbaum, J. B. (2015), Human-level concept learning (Omniglot)"
BACKGROUND, CLASSES, DRAWINGS, SIDE = 964, 1623, 20, 35
_MOST = 2**26  # bytes of an array, or of an archive


class Omniglot(NamedTuple):
    """All drawings, by class: 964 characters of 30 alphabets to train on, then 659 of 20 others.

    Attributes:
        pixels: 0 .. 255, ink is 255, uint8, (32460, 35, 35).
        labels: Class of each, 0 .. 1622, (32460,).

    Example:
        >>> Omniglot(torch.zeros(1, 35, 35, dtype=torch.uint8), torch.tensor([0])).images(torch.tensor([0])).shape
        torch.Size([1, 1, 35, 35])
    """

    pixels: Tensor
    labels: Tensor

    def images(self, rows: Tensor) -> Tensor:
        """Some drawings as a network takes them, from 0 to 1, (n, 1, 35, 35)."""
        return self.pixels[rows].float().div(255).unsqueeze(1)


@cache
def fingerprint() -> str:
    """Of the contents: pixels and classes of all drawings."""
    found = omniglot()
    return hashlib.sha256(found.pixels.numpy().tobytes() + found.labels.numpy().tobytes()).hexdigest()


def omniglot() -> Omniglot:
    """Omniglot from METRICOPT_DATA/omniglot/omniglot35.npz, from the archives there, from the cache, or from its home.

    What was read from archives is kept in the cache folder.
    """
    local, cached = Path(os.environ.get("METRICOPT_DATA", "data"), "omniglot"), cache_folder() / "omniglot35.npz"
    for path in (local / "omniglot35.npz", cached):
        if path.exists():
            return _checked(*_read(path), origin=str(path))
    parts = [_drawings(_archive(local / name)) for name in ARCHIVES]
    pixels = np.concatenate(parts)
    labels = np.repeat(np.arange(len(pixels) // DRAWINGS), DRAWINGS).astype(np.int16)
    found = _checked(pixels, labels, origin="the archives")
    kept = io.BytesIO()
    np.savez_compressed(kept, images35=pixels, label=labels)
    keep(cached, kept.getvalue())
    return found


def _archive(path: Path) -> bytes:
    if path.exists():
        return path.read_bytes()
    return fetch([HOME + path.name], otherwise=f"put {path.name} into METRICOPT_DATA/omniglot")


def _drawings(archive: bytes) -> np.ndarray:
    """Drawings of an archive in the order of its file names, (n, 35, 35): alphabet, character, drawing."""
    from PIL import Image

    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            names = sorted(name for name in opened.namelist() if name.endswith(".png"))
            images = [Image.open(io.BytesIO(bounded(opened.open(name), _MOST))) for name in names]
            return np.stack([averaged(np.asarray(image.convert("L"))) for image in images])
    except DAMAGE as error:
        raise DataError(
            f"an archive of Omniglot cannot be read ({error}); expected that of its home: {HOME}"
        ) from error


def averaged(drawing: np.ndarray) -> np.ndarray:
    """A drawing of 105 x 105, ink black, as means of 3 x 3, ink 255.

    Example:
        >>> averaged(np.zeros((105, 105), np.uint8)).shape, int(averaged(np.zeros((105, 105), np.uint8)).min())
        ((35, 35), 255)
    """
    means = (255.0 - drawing).reshape(SIDE, 3, SIDE, 3).mean((1, 3))
    return np.rint(means).astype(np.uint8)


def _read(path: Path) -> list[np.ndarray]:
    try:
        return npz_arrays(path, ["images35", "label"], most=_MOST)
    except DAMAGE as error:
        raise DataError(
            f"{path} cannot be read ({error}); expected arrays images35 and label: fetch it anew"
        ) from error


def _checked(pixels: np.ndarray, labels: np.ndarray, *, origin: str) -> Omniglot:
    rows = CLASSES * DRAWINGS
    expected = np.repeat(np.arange(CLASSES), DRAWINGS)
    if pixels.shape != (rows, SIDE, SIDE) or pixels.dtype != np.uint8 or not np.array_equal(labels, expected):
        raise DataError(
            f"{origin} holds {pixels.dtype} {pixels.shape}; expected uint8 ({rows}, {SIDE}, {SIDE}), {DRAWINGS} each "
            f"of {CLASSES} classes in order: fetch it anew"
        )
    return Omniglot(torch.from_numpy(pixels.copy()), torch.from_numpy(labels.astype(np.int64)))
