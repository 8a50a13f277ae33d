"""Boxes of many images side by side: what torchmetrics' layout, a list of one dict an image, holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from metricopt.core.errors import MetricError


@dataclass(frozen=True)
class Boxes:
    """Boxes of all images, those of one image together and in its order.

    Attributes:
        image: Number of the image of each box, (boxes,).
        label: Class of each, (boxes,).
        corners: x and y of the first corner, then of the second, (boxes, 4).
        score: Of a detection, (boxes,); zeros of truths.
        crowd: Whether a true box is a region with many objects, (boxes,).
        difficult: Whether a true box is marked as hard to recognise, (boxes,).
        images: How many images there are, those without a box too.
    """

    image: np.ndarray
    label: np.ndarray
    corners: np.ndarray
    score: np.ndarray
    crowd: np.ndarray
    difficult: np.ndarray
    images: int

    def at(self, index: np.ndarray) -> "Boxes":
        """Some of the boxes, in the order of `index`."""
        parts = ("image", "label", "corners", "score", "crowd", "difficult")
        return replace(self, **{name: getattr(self, name)[index] for name in parts})

    @property
    def areas(self) -> np.ndarray:
        """Area of each box, (boxes,)."""
        return (self.corners[:, 2] - self.corners[:, 0]) * (self.corners[:, 3] - self.corners[:, 1])


def truths(given: Sequence[Mapping[str, Any]]) -> Boxes:
    """True boxes; one without an area is an error, for nothing could ever hit it.

    Example:
        >>> import torch
        >>> truths([{"boxes": torch.tensor([[0.0, 0.0, 2.0, 2.0]]), "labels": torch.tensor([1])}]).areas
        array([4.])
    """
    found = _boxes(given, scored=False)
    flat = np.flatnonzero(~(found.areas > 0))
    if len(flat):
        raise MetricError(
            f"true box {found.corners[flat[0]].tolist()} of image {found.image[flat[0]]} has no area ({len(flat)} such "
            f"in all); expected corners [x0, y0, x1, y1] with x0 < x1 and y0 < y1: leave such boxes out"
        )
    return found


def detections(given: Sequence[Mapping[str, Any]]) -> Boxes:
    """Detected boxes with their scores.

    Example:
        >>> import torch
        >>> one = {"boxes": torch.zeros(1, 4), "labels": torch.tensor([1]), "scores": torch.tensor([0.5])}
        >>> detections([one, one]).image
        array([0, 1])
    """
    return _boxes(given, scored=True)


def _boxes(given: Sequence[Mapping[str, Any]], *, scored: bool) -> Boxes:
    needed = ("boxes", "labels", "scores") if scored else ("boxes", "labels")
    for number, each in enumerate(given):
        if not isinstance(each, Mapping) or any(name not in each for name in needed):
            found = sorted(each) if isinstance(each, Mapping) else type(each).__name__
            raise MetricError(
                f"image {number} has {found}; expected one dict an image with {', '.join(needed)}, as torchvision's "
                f"detectors give and torchmetrics takes"
            )
    counts = [len(each["labels"]) for each in given]

    def column(name: str, kind: type, width: tuple[int, ...] = ()) -> np.ndarray:
        parts = [
            np.asarray(each[name], kind).reshape(count, *width) if name in each else np.zeros((count, *width), kind)
            for each, count in zip(given, counts, strict=True)
        ]
        return np.concatenate([np.zeros((0, *width), kind), *parts])

    return Boxes(
        image=np.repeat(np.arange(len(given)), counts),
        label=column("labels", np.int64),
        corners=column("boxes", np.float64, (4,)),
        score=column("scores", np.float64),
        crowd=column("iscrowd", np.bool_),
        difficult=column("difficult", np.bool_),
        images=len(given),
    )
