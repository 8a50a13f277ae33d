"""BCCD: 364 images of blood cells with boxes, in VOC's layout (MIT licence), from a local copy."""

import hashlib
import os
import tarfile
import tempfile
from functools import cache
from pathlib import Path

from metricopt.core.errors import DataError
from metricopt.data.boxes import BoxImages, voc_folder
from metricopt_lab.data.archives import DAMAGE
from metricopt_lab.data.download import cache_folder

SOURCE = "BCCD, blood cells, https://github.com/Shenggan/BCCD_Dataset (MIT)"
CLASSES = ("RBC", "WBC", "Platelets")
SIZE = (240, 320)
"""Height and width that the images are halved to."""


@cache
def bccd(split: str) -> BoxImages:
    """The images of a split ("train" 205, "val" 87, "test" 72) at 240 x 320, from METRICOPT_DATA.

    There `bccd/` is a folder in VOC's layout (`Annotations`, `JPEGImages`, `ImageSets`), or has it as `bccd.tar`.
    """
    with tempfile.TemporaryDirectory() as spare:
        return voc_folder(_folder(Path(spare)), split, classes=CLASSES, size=SIZE)


@cache
def fingerprint() -> str:
    """Of the contents: pixels and boxes of all images as they are read."""
    text = hashlib.sha256()
    for split in ("train", "val", "test"):
        found = bccd(split)
        for image, target in zip(found.images, found.targets, strict=True):
            text.update(image.numpy().tobytes())
            text.update(target["boxes"].numpy().tobytes() + target["labels"].numpy().tobytes())
    return text.hexdigest()


def has_bccd() -> bool:
    """Whether there is a copy."""
    return any((place / "bccd" / name).exists() for place in _places() for name in ("bccd.tar", "Annotations"))


def _places() -> list[Path]:
    named = os.environ.get("METRICOPT_DATA")
    return [*([Path(named)] if named else []), cache_folder()]


def _folder(spare: Path) -> Path:
    for place in _places():
        if (place / "bccd" / "Annotations").is_dir():
            return place / "bccd"
        if (place / "bccd" / "bccd.tar").exists():
            return _unpacked(place / "bccd" / "bccd.tar", spare)
    raise DataError(
        "there is no BCCD; expected bccd/bccd.tar, or VOC's folders in bccd/, in the folder that METRICOPT_DATA names: "
        "get it from github.com/Shenggan/BCCD_Dataset"
    )


def _unpacked(path: Path, spare: Path) -> Path:
    try:
        with tarfile.open(path) as archive:
            archive.extractall(spare, filter="data")
        return next(spare.rglob("Annotations")).parent
    except (*DAMAGE, StopIteration) as error:
        raise DataError(
            f"{path} cannot be read ({error!r:.100}); expected BCCD in VOC's layout: get it again"
        ) from error
