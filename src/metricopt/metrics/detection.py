"""Average precision of a detector's boxes, as COCO, VOC 2007 and later VOC count it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from metricopt.core.errors import MetricError
from metricopt.core.registry import one_of
from metricopt.metrics.boxes.given import detections, truths
from metricopt.metrics.boxes.matching import Rule, matched
from metricopt.metrics.boxes.precision import average_precision
from metricopt.metrics.metric import Metric
from metricopt.metrics.named import METRICS

COCO_OVERLAPS = tuple(round(0.5 + 0.05 * step, 2) for step in range(10))
"""Overlaps (IoU) over which COCO averages: .5, .55, .. .95."""

Images = Sequence[Mapping[str, Any]]
"""One dict an image: boxes [x0, y0, x1, y1], labels, and scores of detections; iscrowd, difficult of truths if any."""


@dataclass(frozen=True)
class BoxPrecision:
    """Mean average precision over classes and overlaps, or of one class.

    Example:
        >>> truth = [{"boxes": torch.tensor([[0.0, 0, 10, 10]]), "labels": torch.tensor([1])}]
        >>> found = [{**truth[0], "scores": torch.tensor([0.9])}]
        >>> BoxPrecision((0.5,))(truth, found)
        1.0
    """

    overlaps: tuple[float, ...]
    rule: Rule = "coco"
    label: int | None = None

    def __call__(self, targets: Images, predictions: Images) -> float:
        """Its value on all images."""
        return float(self.on_rows(targets, predictions)(torch.arange(len(targets))[None])[0])

    def by_class(self, targets: Images, predictions: Images) -> dict[int, float]:
        """Average precision of each class that has true boxes, in the mean over the overlaps.

        Example:
            >>> truth = [{"boxes": torch.tensor([[0.0, 0, 10, 10]]), "labels": torch.tensor([3])}]
            >>> BoxPrecision((0.5,)).by_class(truth, [{**truth[0], "scores": torch.tensor([0.9])}])
            {3: 1.0}
        """
        found = matched(truths(targets), detections(predictions), overlaps=self.overlaps, rule=self.rule)
        values = average_precision(found, np.ones((1, len(targets)), dtype=np.int64), rule=self.rule)[0].mean(0)
        return {int(label): float(value) for label, value in zip(found.classes, values, strict=True)}

    def on_rows(self, targets: Images, predictions: Images) -> Callable[[Tensor], Tensor]:
        """Its values on choices of images, as a function of their numbers (replicates, n): (replicates,).

        Boxes are matched here, once; a choice then takes some tenths of a millisecond.
        """
        if len(targets) != len(predictions):
            raise MetricError(f"{len(predictions)} images have detections, {len(targets)} truths; expected as many")
        found = matched(truths(targets), detections(predictions), overlaps=self.overlaps, rule=self.rule)
        if not found.positives.any():
            raise MetricError(
                f"none of the {len(targets)} images has a true box that counts; expected some: pass images with boxes"
            )
        chosen = slice(None) if self.label is None else found.classes == self.label

        def values(index: Tensor) -> Tensor:
            weights = np.stack([np.bincount(rows, minlength=len(targets)) for rows in index.numpy()])
            each = average_precision(found, weights, rule=self.rule)[:, :, chosen].mean(1)  # (replicates, classes)
            there = ~np.isnan(each)
            return torch.from_numpy(np.where(there, each, 0.0).sum(1) / np.where(there.any(1), there.sum(1), np.nan))

        return values


@METRICS.add("ap50")
def ap50(rule: Rule = "coco", label: int | None = None) -> Metric:
    """Average precision of boxes at an overlap of .5, in the mean over the classes that have true boxes.

    Args:
        rule: "coco" (101 points of recall, at most 100 detections of a class an image; crowds are not counted), "voc07"
            (11 points) or "area" (later VOC; both without difficult boxes). VOC's devkit counts pixels, with corners
            inside the box; here a box from 0 to 10 is 10 wide under every rule.
        label: One class alone.

    Example:
        >>> truth = [{"boxes": torch.tensor([[0.0, 0, 10, 10]]), "labels": torch.tensor([1])}]
        >>> ap50().value([{**truth[0], "scores": torch.tensor([0.9])}], truth)
        1.0
    """
    return box_precision(0.5, rule=rule, label=label)


@METRICS.add("ap_coco")
def ap_coco(label: int | None = None) -> Metric:
    """COCO's mean average precision: over classes and overlaps of .5, .55, .. .95.

    Example:
        >>> truth = [{"boxes": torch.tensor([[0.0, 0, 10, 10]]), "labels": torch.tensor([1])}]
        >>> near = [{"boxes": torch.tensor([[0.0, 0, 10, 8]]), "labels": torch.tensor([1]), "scores": torch.ones(1)}]
        >>> round(ap_coco().value(near, truth), 2)  # it overlaps by .8, which seven of ten ask at most
        0.7
    """
    return box_precision(COCO_OVERLAPS, label=label)


def box_precision(overlaps: float | Sequence[float] = 0.5, *, rule: Rule = "coco", label: int | None = None) -> Metric:
    """Average precision of boxes at any overlaps.

    Example:
        >>> box_precision(0.75, rule="area").name
        'AP75 (area)'
    """
    one_of(rule, get_args(Rule), what="rule")
    given = (overlaps,) if isinstance(overlaps, int | float) else tuple(overlaps)
    if not given or not all(0 < each <= 1 for each in given):
        raise MetricError(f"overlaps are {given}; expected numbers above 0 and up to 1, such as 0.5")
    function = BoxPrecision(given, rule, label)
    usual = "AP" if given == COCO_OVERLAPS else "AP" + "-".join(f"{100 * each:g}" for each in given)
    name = usual + ("" if rule == "coco" else f" ({rule})") + ("" if label is None else f" of class {label}")
    return Metric(function, on="outputs", goal="max", name=name, on_rows=function.on_rows)
