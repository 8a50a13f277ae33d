"""What `optimize` does by itself for torchvision's detectors: where phi acts, and what is checked of the true boxes."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from metricopt.adapters import Adapter, FiLM, LayerAffine
from metricopt.adapters.detector import SCORES, classes_of
from metricopt.core.errors import DataError
from metricopt.core.tree import described
from metricopt.data.dataset import Data

POOLED = "roi_heads.box_roi_pool"
"""Where FiLM acts by default: on what is pooled at each proposal, which leaves proposals as they are."""

PYRAMID = "backbone.fpn.layer_blocks.*"
"""The outputs of the feature pyramid, which both stages look at: four times as long a query."""


def detector_adapter(layers: str = POOLED, dim: int = 128) -> Adapter:
    """FiLM at one place of a detector, an affine of its class scores and one of its box corrections.

    Example:
        >>> [type(part).__name__ for part in detector_adapter().parts]
        ['FiLM', 'LayerAffine', 'LayerAffine']
    """
    corrections = "roi_heads.box_predictor.bbox_pred"
    return FiLM(dim=dim, layers=layers) + LayerAffine(layers=SCORES) + LayerAffine(layers=corrections, strength=0.2)


def check_boxes(net: nn.Module, sets: Mapping[str, Data]) -> None:
    """Raises unless the targets are boxes with an area, each of a class that the detector knows.

    Example:
        >>> from metricopt.data.dataset import Examples
        >>> import torch
        >>> check_boxes(nn.Identity(), {"val": Examples(torch.zeros(2, 3, 8, 8), torch.zeros(2))})
        Traceback (most recent call last):
        ...
        metricopt.core.errors.DataError: targets of val are float32 (2,); expected a list with one dict an image: ...
    """
    for name, data in sets.items():
        targets = data.truth[0]
        if not isinstance(targets, list) or not all(isinstance(each, Mapping) for each in targets):
            raise DataError(
                f"targets of {name} are {described(targets)[:120]}; expected a list with one dict an image: 'boxes' "
                f"[x0, y0, x1, y1] and 'labels', as torchvision's detectors are trained with"
            )
        known = classes_of(net)
        for number, each in enumerate(targets):
            _check_image(each, known, f"image {number} of {name}")


def _check_image(target: Mapping[str, Any], known: int, where: str) -> None:
    boxes, labels = target.get("boxes"), target.get("labels")
    if not isinstance(boxes, Tensor) or not isinstance(labels, Tensor) or boxes.shape != (len(labels), 4):
        raise DataError(
            f"{where} has {described(dict(target))[:120]}; expected 'boxes' (n, 4) and 'labels' (n,): of an image "
            f"without objects torch.zeros(0, 4) and torch.zeros(0).long()"
        )
    if not len(labels):
        return
    flat = ~(boxes[:, 2:] > boxes[:, :2]).all(1)
    if bool(flat.any()):
        raise DataError(
            f"{where} has box {boxes[flat][0].tolist()}, which has no area; expected x0 < x1 and y0 < y1: leave it out"
        )
    if int(labels.min()) < 1 or int(labels.max()) >= known:
        raise DataError(
            f"{where} has labels from {int(labels.min())} to {int(labels.max())}; the detector knows 1 to {known - 1} "
            f"(0 is the background): number the classes as in its training"
        )
