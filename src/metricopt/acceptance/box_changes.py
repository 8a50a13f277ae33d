"""Which true boxes a new detector finds or misses that the original did not, class by class, with pictures of them."""

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from metricopt.acceptance.changes import counted
from metricopt.core.errors import DataError
from metricopt.data.images import pillow
from metricopt.losses.boxes import overlaps

Images = Sequence[Mapping[str, Any]]

ENOUGH = 0.5
"""Overlap with a true box from which a detection finds it."""
PICTURES, WIDEST = 4, 480
"""How many images are shown, those with most changes first, and how many pixels wide at most."""


def has_boxes(given: Any, *more: str) -> bool:
    """Whether targets are boxes with labels, or detections with more than that, one dict an image.

    Example:
        >>> one = [{"boxes": torch.zeros(0, 4), "labels": torch.zeros(0).long()}]
        >>> has_boxes(one), has_boxes(one, "scores"), has_boxes(torch.zeros(3))
        (True, False, False)
    """
    wanted = {"boxes", "labels", *more}
    return isinstance(given, list) and all(isinstance(each, Mapping) and wanted <= each.keys() for each in given)


def box_changes(found: tuple[Images, Images], targets: Images, image: Callable[[int], Tensor]) -> dict[str, Any]:
    """Counts by class as plain data, and the images with most changes.

    Scores of two detectors do not compare. So of each class as many boxes as there are true ones are looked at, those
    with the highest scores: where precision and recall are one number.

    Args:
        found: Detections of the original and of the new detector.
        targets: True boxes.
        image: Pixels of an image by its number, 0 .. 1, (3, height, width).

    Returns:
        `classes`, for each of them `examples`, `right_before`, `won` and `lost`, what these count as `unit`, and
        `pictures`, each with a JPEG and boxes [x0, y0, x1, y1, label, "kept" | "won" | "lost" | "missed"].

    Example:
        >>> truth = [{"boxes": torch.tensor([[0.0, 0, 4, 4]]), "labels": torch.tensor([1])}]
        >>> near = [{**truth[0], "scores": torch.tensor([0.4])}]
        >>> far = [{**near[0], "boxes": torch.tensor([[4.0, 4, 8, 8]])}]
        >>> changed = box_changes((far, near), truth, lambda number: torch.zeros(3, 8, 8))
        >>> changed["won"], changed["lost"], changed["pictures"][0]["boxes"]
        ([1], [0], [[0.0, 0.0, 4.0, 4.0, 1, 'won']])
    """
    labels = torch.cat([torch.as_tensor(each["labels"]) for each in targets]).cpu()
    classes, row = torch.unique(labels, return_inverse=True)
    hits = [_hits(each, targets, _cuts(each, classes, row)) for each in found]
    before, after = (torch.cat(each) for each in hits)
    changed = torch.tensor([int((one != other).sum()) for one, other in zip(*hits, strict=True)])
    shown = [n for n in changed.argsort(descending=True, stable=True)[:PICTURES].tolist() if changed[n]]
    pictures = [_picture(image(n), targets[n], (hits[0][n], hits[1][n])) for n in shown]
    return {
        **counted(classes, row, before, after),
        "unit": "true box",
        "pictures": [each for each in pictures if each is not None],
    }


def _cuts(found: Images, classes: Tensor, row: Tensor) -> dict[int, float]:
    """The lowest score that is looked at of each class: there are as many above as the class has true boxes."""
    labels, scores = (torch.cat([torch.as_tensor(each[name]).cpu() for each in found]) for name in ("labels", "scores"))
    cuts = {}
    for place, label in enumerate(classes.tolist()):
        own, wanted = scores[labels == label], int((row == place).sum())
        cuts[label] = float(own.sort(descending=True).values[wanted - 1]) if len(own) >= wanted else -torch.inf
    return cuts


def _hits(found: Images, targets: Images, cuts: Mapping[int, float]) -> list[Tensor]:
    """Which true boxes of each image are found, the best detection choosing first."""
    return [_hits_of(one, target, cuts) for one, target in zip(found, targets, strict=True)]


def _hits_of(found: Mapping[str, Any], target: Mapping[str, Any], cuts: Mapping[int, float]) -> Tensor:
    labels, truth = torch.as_tensor(target["labels"]).cpu(), torch.as_tensor(target["boxes"]).cpu()
    hit = torch.zeros(len(labels), dtype=torch.bool)
    if not len(labels) or not len(found["labels"]):
        return hit
    overlap = overlaps(torch.as_tensor(found["boxes"]).cpu(), truth)
    for one in torch.as_tensor(found["scores"]).argsort(descending=True, stable=True).tolist():
        label = int(found["labels"][one])
        free = torch.where((labels == label) & ~hit, overlap[one], torch.zeros(()))
        if float(found["scores"][one]) >= cuts.get(label, torch.inf) and float(free.max()) >= ENOUGH:
            hit[int(free.argmax())] = True
    return hit


def _picture(pixels: Tensor, target: Mapping[str, Any], hits: tuple[Tensor, Tensor]) -> dict[str, Any] | None:
    """An image with its true boxes; None without the library that writes it."""
    try:
        library = pillow()
    except DataError:
        return None
    height, width = pixels.shape[-2:]
    channels = (255 * pixels.detach().cpu().clamp(0, 1)).byte().permute(1, 2, 0).contiguous()
    drawn = library.fromarray(channels.numpy())
    drawn.thumbnail((WIDEST, WIDEST))
    file = io.BytesIO()
    drawn.save(file, "JPEG", quality=75)
    words = {(True, True): "kept", (False, True): "won", (True, False): "lost", (False, False): "missed"}
    boxes = [
        [*(round(float(side), 1) for side in box), int(label), words[bool(one), bool(other)]]
        for box, label, one, other in zip(target["boxes"], target["labels"], *hits, strict=True)
    ]
    jpeg = base64.b64encode(file.getvalue()).decode()
    return {"jpeg": jpeg, "width": int(width), "height": int(height), "boxes": boxes}
