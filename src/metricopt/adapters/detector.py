"""What the adapters know of torchvision's detectors, without importing torchvision: whoever has one has done that."""

import sys
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from metricopt.core.tree import Tree


def pooling() -> tuple[type[nn.Module], ...]:
    """The kind of layer that pools a feature pyramid at boxes; none where torchvision is not in use.

    Example:
        >>> all(issubclass(kind, nn.Module) for kind in pooling())
        True
    """
    found = sys.modules.get("torchvision.ops.poolers")
    return () if found is None else (found.MultiScaleRoIAlign,)


def is_detector(net: nn.Module) -> bool:
    """Whether a network is one of torchvision's two-stage detectors, with boxes as its outputs.

    Example:
        >>> is_detector(nn.Linear(2, 1))
        False
    """
    found = sys.modules.get("torchvision.models.detection.faster_rcnn")
    return found is not None and isinstance(net, found.FasterRCNN)


def classes_of(net: nn.Module) -> int:
    """How many classes a detector tells apart, the background included."""
    return net.get_submodule("roi_heads.box_predictor.cls_score").out_features  # pyright: ignore[reportReturnType]


def first_of_head(net: nn.Module, pooled: str) -> tuple[nn.Linear | None, int]:
    """The linear layer that takes what is pooled, flattened, and how many places each channel of that has."""
    parent = net.get_submodule(pooled.rpartition(".")[0])
    head, pool = parent._modules.get("box_head"), net.get_submodule(pooled)
    size: Any = pool.output_size
    first = None if head is None else next((m for m in head.modules() if not m._modules), None)
    return first if isinstance(first, nn.Linear) else None, size[0] * size[1]


def detect(net: nn.Module, images: Tree) -> list[dict[str, Tensor]]:
    """A detector's boxes, labels and scores, one dict an image, with what they were made of, differentiably.

    Beside them stand `proposals` (boxes of the first stage, in the image's own pixels), `class_logits` of each (with
    the background first) and `box_deltas` (four a class), on which losses can be computed.
    """
    seen: dict[str, Any] = {}
    with _noting(net, "rpn", seen), _noting(net, "roi_heads.box_predictor", seen), _noting(net, "transform", seen):
        found = net(list(images))
    boxes, _ = seen["rpn"]
    counts = [len(each) for each in boxes]
    logits, deltas = (part.split(counts) for part in seen["roi_heads.box_predictor"])
    sizes = seen["transform"][0].image_sizes
    return [
        {
            **each,
            "proposals": boxes[k] * _ratio(images[k], sizes[k]).to(boxes[k]),
            "class_logits": logits[k],
            "box_deltas": deltas[k],
        }
        for k, each in enumerate(found)
    ]


def own_losses(net: nn.Module, given: tuple[Tree, Tree]) -> Tensor:
    """The sum of the losses that a detector was trained with, on (images, targets), its layers as in eval mode.

    Which anchors and proposals are looked at is drawn by torch's global state, which is put back afterwards.
    """
    images, targets = given
    parts = [net, *(module for name, module in net.named_children() if name in ("transform", "rpn", "roi_heads"))]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for part in parts:  # these alone: what is inside them, dropout and normalisation, stays as it is
            part.training = True
        try:
            losses = net(list(images), list(targets))
        finally:
            for part in parts:
                part.training = False
    assert isinstance(losses, dict)
    return torch.stack(list(OrderedDict(losses).values())).sum()


def _ratio(image: Tensor, size: tuple[int, int]) -> Tensor:
    height, width = image.shape[-2] / size[0], image.shape[-1] / size[1]
    return torch.tensor([width, height, width, height])


@contextmanager
def _noting(net: nn.Module, name: str, seen: dict[str, Any]) -> Iterator[None]:
    """Within this context what a module gives is written down."""

    def note(_module: nn.Module, _inputs: Any, output: Any) -> None:
        seen[name] = output

    handle = net.get_submodule(name).register_forward_hook(note)
    try:
        yield
    finally:
        handle.remove()
