"""What the adapters know of torchvision's detectors, without importing torchvision: whoever has one has done that."""

import sys
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from metricopt.core.tree import Tree

SCORES = "roi_heads.box_predictor.cls_score"
"""The layer that gives class scores, that of the background first."""

PROPOSALS = 32
"""Of an image that a finetuned detector's second stage looks at in a step, at most. torchvision takes up to 512, and
the way back through their pooling is what takes longest: on training images under a shift of their own, 32 gave AP50
.919 in 20 processor seconds where 128 gave .913 in 56."""


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
    return net.get_submodule(SCORES).out_features  # pyright: ignore[reportReturnType]


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


def behind_body(net: nn.Module) -> list[str]:
    """Names of a detector's parameters behind its body: pyramid, first and second stage.

    What they are given is computed once and kept; the body, most of the weights and of the time, stays as it is.
    """
    backbone = net.get_submodule("backbone")
    body = "backbone.body." if "body" in backbone._modules and len(backbone._modules) > 1 else "backbone."
    return [name for name, _ in net.named_parameters() if not name.startswith(body)]


def own_losses(net: nn.Module, given: tuple[Tree, Tree]) -> Tensor:
    """The sum of the losses that a detector was trained with, on (images, targets) of the size it is used at.

    Its layers are in whatever mode they are. Which anchors and proposals are looked at is drawn by torch's global
    state: in train mode fewer proposals; in eval mode always the same way, and the state is put back afterwards.
    """
    images, targets = given
    if net.training:
        with _fewer_proposals(net):
            return _losses(net, images, targets)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return _losses(net, images, targets)


@contextmanager
def _fewer_proposals(net: Any) -> Iterator[None]:
    sampler = net.roi_heads.fg_bg_sampler
    before = sampler.batch_size_per_image
    sampler.batch_size_per_image = min(before, PROPOSALS)
    try:
        yield
    finally:
        sampler.batch_size_per_image = before


def _losses(net: Any, images: Tree, targets: Tree) -> Tensor:
    # The class's own: where what it gave is recalled, that was without targets, which are to be resized too.
    resize = type(net.transform).forward
    stages = (net.rpn, net.roi_heads)
    modes = [module.training for module in (net.transform, *stages)]
    try:
        net.transform.training = False  # at one size, whatever sizes it was trained at
        for stage in stages:  # these alone: what is inside them, dropout and normalisation, stays as it is
            stage.training = True
        shown, resized = resize(net.transform, list(images), list(targets))
        features = net.backbone(shown.tensors)
        if isinstance(features, Tensor):
            features = OrderedDict([("0", features)])
        proposals, first = net.rpn(shown, features, resized)
        _, second = net.roi_heads(features, proposals, shown.image_sizes, resized)
    finally:
        for module, mode in zip((net.transform, *stages), modes, strict=True):
            module.training = mode
    return torch.stack([*first.values(), *second.values()]).sum()


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
