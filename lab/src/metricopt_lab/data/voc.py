"""Pascal VOC 2007 and 2012: images of 20 classes of objects with boxes, from a local copy."""

import os
from functools import cache
from pathlib import Path

from metricopt.core.errors import DataError
from metricopt.data.boxes import BoxImages, voc_folder
from metricopt_lab.data.download import cache_folder

SOURCE = "Pascal VOC, http://host.robots.ox.ac.uk/pascal/VOC"
CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)


@cache
def voc(year: int, split: str) -> BoxImages:
    """The images of a split ("train", "val" or, of 2007, "test"), in the sizes they have."""
    return voc_folder(voc_place(year), split, classes=CLASSES)


def voc_place(year: int) -> Path:
    """Where a year is: `voc/VOC2007` or `VOCdevkit/VOC2007` in the folder METRICOPT_DATA names, or in the cache."""
    named = os.environ.get("METRICOPT_DATA")
    tops = [*([Path(named)] if named else []), cache_folder()]
    places = [top / folder / f"VOC{year}" for top in tops for folder in ("voc", "VOCdevkit")]
    found = next((place for place in places if (place / "Annotations").is_dir()), None)
    if found is None:
        raise DataError(
            f"there is no VOC{year}; expected its folders at {places[0]}: get VOCtrainval and VOCtest from "
            f"host.robots.ox.ac.uk and unpack them there, or use --scale small"
        )
    return found


def joined(parts: list[BoxImages]) -> BoxImages:
    """Images of several years as one set."""
    return BoxImages(
        [image for part in parts for image in part.images],
        [target for part in parts for target in part.targets],
        parts[0].classes,
        tuple(name for part in parts for name in part.names),
        tuple(name for part in parts for name in part.left_out),
    )
