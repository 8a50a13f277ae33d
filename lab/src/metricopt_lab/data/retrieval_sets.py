"""Stanford Online Products and CUB-200-2011 in the layout they are published in: paths and classes of each part."""

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from metricopt.core.errors import DataError

_CUB_TRAINED = 100  # by convention the first hundred birds train, the others test


class Listed(NamedTuple):
    """Images of one part.

    Attributes:
        paths: Files, in the order of the list.
        classes: Class of each, (n,).
    """

    paths: list[Path]
    classes: Tensor


def stanford_online_products(folder: Path | str, part: str) -> Listed:
    """Images that Ebay_train.txt or Ebay_test.txt lists: 59,551 of 11,318 products, and 60,502 of 11,316 others.

    Args:
        folder: Stanford_Online_Products, as it is unpacked.
        part: "train" or "test".
    """
    rows = _rows(Path(folder) / f"Ebay_{part}.txt")[1:]
    return Listed([Path(folder) / row[3] for row in rows], torch.tensor([int(row[1]) for row in rows]))


def cub(folder: Path | str, part: str) -> Listed:
    """Images of the first hundred classes of CUB-200-2011 ("train") or of the others ("test").

    Args:
        folder: CUB_200_2011, as it is unpacked.
        part: "train" or "test".
    """
    files = dict(_rows(Path(folder) / "images.txt"))
    classes = {number: int(label) for number, label in _rows(Path(folder) / "image_class_labels.txt")}
    chosen = [number for number in files if (classes[number] <= _CUB_TRAINED) == (part == "train")]
    paths = [Path(folder) / "images" / files[number] for number in chosen]
    return Listed(paths, torch.tensor([classes[number] for number in chosen]))


def _rows(path: Path) -> list[list[str]]:
    if not path.exists():
        raise DataError(f"{path} is missing; expected the list of the published archive: unpack it there")
    return [line.split() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
