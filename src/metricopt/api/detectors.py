"""What `optimize` does by itself for torchvision's detectors: where phi acts, and what is checked of the true boxes."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from metricopt.adapters import Adapter, FiLM, LayerAffine
from metricopt.adapters.detector import FAMILIES, POOLED, family_of, labels_of, layers_of
from metricopt.core.errors import DataError
from metricopt.core.tree import described
from metricopt.data.dataset import Data

_FASTER = FAMILIES[0]


def detector_adapter(
    layers: str = POOLED,
    dim: int = 128,
    *,
    scores: str = _FASTER.scores[0],
    corrections: str = _FASTER.corrections[0],
) -> Adapter:
    """FiLM at one place of a detector, an affine of its class scores and one of its box corrections.

    Example:
        >>> [type(part).__name__ for part in detector_adapter().parts]
        ['FiLM', 'LayerAffine', 'LayerAffine']
    """
    return FiLM(dim=dim, layers=layers) + LayerAffine(layers=scores) + LayerAffine(layers=corrections, strength=0.2)


def adapter_for(net: nn.Module) -> Adapter:
    """The adapter of a detector, in layers that it has.

    FiLM acts on what is pooled at each proposal, which leaves proposals as they are; of one stage on the pyramid, or
    in what stands in its place.
    """
    family = family_of(net)
    assert family is not None
    features, scores, corrections = (
        layers_of(net, each) for each in (family.features, family.scores, family.corrections)
    )
    return detector_adapter(features, scores=scores, corrections=corrections)


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
        known = labels_of(net)
        for number, each in enumerate(targets):
            _check_image(each, known, f"image {number} of {name}")


def _check_image(target: Mapping[str, Any], known: range, where: str) -> None:
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
    if int(labels.min()) not in known or int(labels.max()) not in known:
        background = " (0 is the background)" if known.start else ""
        raise DataError(
            f"{where} has labels from {int(labels.min())} to {int(labels.max())}; the detector knows {known.start} to "
            f"{known.stop - 1}{background}: number the classes as in its training"
        )
