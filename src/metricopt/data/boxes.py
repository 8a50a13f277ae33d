"""Images with boxes: a user's own folder in VOC's layout, or COCO's JSON, as torchvision's detectors take them."""

import json
import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from metricopt.core.errors import DataError
from metricopt.data.dataset import Examples
from metricopt.data.images import SUFFIXES, pillow, pixels_of

Target = dict[str, Tensor]
"""`boxes` [x0, y0, x1, y1] (n, 4), `labels` (n,), `iscrowd` and `difficult` (n,)."""


# Field by field it would compare tensors, whose truth is ambiguous.
@dataclass(frozen=True, eq=False, repr=False)
class BoxImages:
    """Images with the boxes of the objects in them.

    Attributes:
        images: Pixels 0 .. 255, uint8, (3, height, width) each.
        targets: True boxes of each image; the background is class 0, so labels begin with 1.
        classes: Name of each class; the first one is the background.
        names: What each image is called.
        left_out: Boxes without an area, which nothing could hit: names of their images.

    Example:
        >>> empty = {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0).long()}
        >>> BoxImages([torch.zeros(3, 8, 8).byte()], [empty], ("background", "cell"), ("a",))
        BoxImages(1 with 0 boxes of 1 class)
    """

    images: Sequence[Tensor]
    targets: Sequence[Target]
    classes: tuple[str, ...]
    names: tuple[str, ...]
    left_out: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        count, classes = sum(len(each["labels"]) for each in self.targets), len(self.classes) - 1
        return f"BoxImages({len(self)} with {count} boxes of {classes} class{'es' if classes > 1 else ''})"

    def rows(self, index: Iterable[int]) -> "BoxImages":
        """Some of the images, in this order."""
        some = list(index)
        return BoxImages(
            [self.images[i] for i in some],
            [self.targets[i] for i in some],
            self.classes,
            tuple(self.names[i] for i in some),
        )

    def examples(self) -> Examples:
        """What a detector takes: pixels from 0 to 1, as a list if they differ in size, and the targets."""
        inputs = [image.float() / 255 for image in self.images]
        alike = len({image.shape for image in inputs}) == 1
        return Examples(torch.stack(inputs) if alike else inputs, list(self.targets))


def voc_folder(
    folder: Path | str,
    split: str | None = None,
    *,
    classes: Sequence[str] | None = None,
    size: tuple[int, int] | None = None,
) -> BoxImages:
    """A folder in VOC's layout: `Annotations/*.xml`, `JPEGImages` and, for splits, `ImageSets/Main/SPLIT.txt`.

    Args:
        folder: Where these are.
        split: Which list of images; all annotated ones if None.
        classes: Names in the order of the detector's training, without the background; sorted by name if None.
        size: Height and width that every image is resized to, its boxes with it.

    Example:
        >>> voc_folder("no-such-folder")
        Traceback (most recent call last):
        ...
        metricopt.core.errors.DataError: no-such-folder/Annotations is no folder; expected VOC's layout: ...
    """
    folder = Path(folder)
    notes = folder / "Annotations"
    if not notes.is_dir():
        raise DataError(f"{notes} is no folder; expected VOC's layout: Annotations/*.xml beside JPEGImages")
    names = _listed(folder, split) if split else sorted(path.stem for path in notes.glob("*.xml"))
    if not names:
        raise DataError(f"{notes} has no .xml file; expected one an image")
    files = {path.stem: path for path in (folder / "JPEGImages").glob("*") if path.suffix.lower() in SUFFIXES}
    objects = [_voc_objects(notes / f"{name}.xml") for name in names]
    known = sorted({label for each in objects for label, _, _ in each}) if classes is None else list(classes)
    missing = [name for name in names if name not in files]
    if missing:
        raise DataError(f"{folder / 'JPEGImages'} has no image called {missing[0]!r}, which is annotated: restore it")
    rows = [(files[name], each) for name, each in zip(names, objects, strict=True)]
    return _read(rows, known, size)


def coco_json(
    path: Path | str,
    images: Path | str,
    *,
    classes: Sequence[str] | Literal["by id"] | None = None,
    size: tuple[int, int] | None = None,
) -> BoxImages:
    """Boxes of a file in COCO's format, and the images that it names in a folder.

    Args:
        path: The file.
        images: The folder.
        classes: Names in the order of the detector's training, without the background; in the order of the file's
            categories if None. "by id" for labels that are the ids of the categories, gaps and all: so it is with
            torchvision's detectors that were trained on COCO.
        size: Height and width that every image is resized to, its boxes with it.

    Example:
        >>> coco_json("no-such-file.json", ".")
        Traceback (most recent call last):
        ...
        metricopt.core.errors.DataError: no-such-file.json cannot be read (...); expected COCO's JSON ...
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        categories = {each["id"]: str(each["name"]) for each in found["categories"]}
        boxes: dict[int, list[_Object]] = {each["id"]: [] for each in found["images"]}
        for each in found["annotations"]:
            x, y, width, height = each["bbox"]
            crowd = {"iscrowd": bool(each.get("iscrowd", 0)), "difficult": False}
            corners = (float(x), float(y), float(x + width), float(y + height))
            if not all(map(math.isfinite, corners)):
                raise ValueError(f"a box of image {each['image_id']!r:.40} that is no box: {each['bbox']!r:.60}")
            boxes[each["image_id"]].append((categories[each["category_id"]], corners, crowd))
        rows = [(Path(images) / str(each["file_name"]), boxes[each["id"]]) for each in found["images"]]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise DataError(
            f"{path} cannot be read ({error!r:.100}); expected COCO's JSON with images, annotations and categories"
        ) from error
    if not rows:
        raise DataError(f"{path} names no image; expected some under 'images'")
    if classes == "by id":
        known = _by_id(categories, path)
    else:
        known = list(categories.values()) if classes is None else list(classes)
    return _read(rows, known, size)


def _by_id(categories: Mapping[Any, str], path: Path | str) -> list[str]:
    """Names of the classes 1, 2, ... so that each has its id for a number; ids that no category has are named so."""
    if not all(isinstance(number, int) and 0 < number <= _LARGEST_ID for number in categories):
        raise DataError(
            f"{path} has categories with ids {list(categories)!r:.80}; expected numbers from 1 to {_LARGEST_ID}: leave "
            f'out classes="by id"'
        )
    return [categories.get(number, f"no class {number}") for number in range(1, 1 + max(categories, default=0))]


_LARGEST_ID = 100_000

_Object = tuple[str, tuple[float, float, float, float], Mapping[str, bool]]
"""Name of the class, corners, and whether it is a crowd or difficult."""


def _listed(folder: Path, split: str) -> list[str]:
    path = folder / "ImageSets" / "Main" / f"{split}.txt"
    try:
        return path.read_text(encoding="utf-8").split()
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error}); expected the names of the images of {split!r}") from error


def _voc_objects(path: Path) -> list[_Object]:
    try:
        found = []
        for each in ElementTree.parse(path).iter("object"):
            corners = tuple(float(each.findtext(f"bndbox/{side}") or "nan") for side in _SIDES)
            hard = (each.findtext("difficult") or "0").strip() == "1"
            found.append(((each.findtext("name") or "").strip(), corners, {"iscrowd": False, "difficult": hard}))
    except (OSError, ValueError, ElementTree.ParseError) as error:
        raise DataError(f"{path} cannot be read ({error}); expected a VOC annotation: restore or remove it") from error
    if any(not name or not all(map(math.isfinite, corners)) for name, corners, _ in found):
        raise DataError(f"{path} has an object without a name or a corner of its box; expected both: repair it")
    return found


_SIDES = ("xmin", "ymin", "xmax", "ymax")


def _read(
    rows: Sequence[tuple[Path, Sequence[_Object]]], classes: Sequence[str], size: tuple[int, int] | None
) -> BoxImages:
    images, targets, left_out = [], [], []
    library = pillow()
    for path, objects in rows:
        strange = [name for name, _, _ in objects if name not in classes]
        if strange:
            raise DataError(f"{path} has a box of {strange[0]!r}; expected one of {', '.join(classes)[:80]}")
        image, original = pixels_of(path, size, library, averaged=True)
        ratio = torch.tensor([image.shape[2] / original[1], image.shape[1] / original[0]] * 2)
        sound = [each for each in objects if each[1][2] > each[1][0] and each[1][3] > each[1][1]]
        left_out += [path.stem] * (len(objects) - len(sound))
        images.append(image)
        targets.append(_target(sound, classes, ratio))
    return BoxImages(images, targets, ("background", *classes), tuple(path.stem for path, _ in rows), tuple(left_out))


def _target(objects: Sequence[_Object], classes: Sequence[str], ratio: Tensor) -> Target:
    def flags(name: str) -> Tensor:
        return torch.tensor([each[2][name] for each in objects], dtype=torch.bool)

    return {
        "boxes": torch.tensor([each[1] for each in objects], dtype=torch.float32).reshape(-1, 4) * ratio,
        "labels": torch.tensor([1 + classes.index(each[0]) for each in objects], dtype=torch.int64),
        "iscrowd": flags("iscrowd"),
        "difficult": flags("difficult"),
    }
