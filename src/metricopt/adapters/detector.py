"""What the adapters know of torchvision's detectors, without importing torchvision: whoever has one has done that."""

import sys
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from metricopt.core.tree import Tree

POOLED = "roi_heads.box_roi_pool"
"""What is pooled at each proposal: FiLM there leaves proposals as they are."""

PYRAMID = "backbone.fpn.layer_blocks.*"
"""The outputs of a feature pyramid."""


@dataclass(frozen=True)
class Family:
    """A kind of detectors: where they have what is modulated, and what they know of the background.

    Of several names the first that a detector has is meant; `*` and `?` are as in names of files.

    Attributes:
        module: Of torchvision.models.detection, in which the kind is defined.
        kind: The class.
        scores: The layers that give class scores.
        corrections: Those that give corrections of boxes.
        features: Where FiLM acts by default.
        background: Whether class 0 is the background, with a score of its own.
    """

    module: str
    kind: str
    scores: tuple[str, ...]
    corrections: tuple[str, ...]
    features: tuple[str, ...]
    background: bool


_SCORES, _CORRECTIONS = "head.classification_head.", "head.regression_head."
_TOWERS = (PYRAMID, "head.*_head.conv.*")
_LISTS = ("module_list.?", "module_list.?.1")  # of plain layers, or of pairs of which the second gives the scores
FAMILIES = (
    Family(
        "faster_rcnn",
        "FasterRCNN",
        ("roi_heads.box_predictor.cls_score",),
        ("roi_heads.box_predictor.bbox_pred",),
        (POOLED,),
        background=True,
    ),
    *(
        Family(name.lower(), name, (f"{_SCORES}cls_logits",), (f"{_CORRECTIONS}bbox_reg",), _TOWERS, background=False)
        for name in ("RetinaNet", "FCOS")
    ),
    Family(
        "ssd",
        "SSD",
        tuple(_SCORES + name for name in _LISTS),
        tuple(_CORRECTIONS + name for name in _LISTS),
        ("backbone.extra.*", "backbone.*"),
        background=True,
    ),
)
"""Those of torchvision: the two-stage ones, Mask and Keypoint R-CNN among them, and three with one stage."""

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


def family_of(net: nn.Module) -> Family | None:
    """Which of torchvision's kinds of detectors a network is; None if it is none.

    Example:
        >>> family_of(nn.Linear(2, 1))
    """
    for family in FAMILIES:
        found = sys.modules.get(f"torchvision.models.detection.{family.module}")
        if found is not None and isinstance(net, getattr(found, family.kind)):
            return family
    return None


def is_detector(net: nn.Module) -> bool:
    """Whether a network is one of torchvision's detectors, with boxes as its outputs.

    Example:
        >>> is_detector(nn.Linear(2, 1))
        False
    """
    return family_of(net) is not None


def _two_stages(net: nn.Module) -> bool:
    return "roi_heads" in net._modules


def layers_of(net: nn.Module, names: tuple[str, ...]) -> str:
    """The first of some names, or patterns, that a layer of the network has; the last one if no layer has any.

    Example:
        >>> layers_of(nn.Sequential(nn.Linear(2, 1), nn.Sequential(nn.ReLU())), ("2", "1", "1.*"))
        '1.*'
    """
    plain = [name for name, module in net.named_modules() if not module._modules]
    return next((name for name in names if any(fnmatchcase(each, name) for each in plain)), names[-1])


def scores_of(net: nn.Module) -> str:
    """The layers of a detector that give class scores, by name or pattern."""
    family = family_of(net)
    assert family is not None
    return layers_of(net, family.scores)


def labels_of(net: nn.Module) -> range:
    """Classes that true boxes may have: the background, where it is one, is none of them."""
    family, parts = family_of(net), dict(net.named_modules())
    assert family is not None
    if _two_stages(net):
        count = parts[family.scores[0]].out_features
    else:
        head = vars(parts["head.classification_head"])
        count = head["num_columns"] if "num_columns" in head else head["num_classes"]
    return range(int(family.background), count)  # pyright: ignore[reportArgumentType]


def toward_boxes(net: nn.Module, scores: int) -> Tensor:
    """By which shift of its scores, (scores,), a detector says "background" less often: lower that, or raise all."""
    family = family_of(net)
    assert family is not None
    if not family.background:
        return torch.ones(scores)
    shift = torch.zeros(scores)
    shift[:: labels_of(net).stop] = -1.0  # of each anchor, where a layer has the scores of several
    return shift


def first_of_head(net: nn.Module, pooled: str) -> tuple[nn.Linear | None, int]:
    """The linear layer that takes what is pooled, flattened, and how many places each channel of that has."""
    parent = net.get_submodule(pooled.rpartition(".")[0])
    head, pool = parent._modules.get("box_head"), net.get_submodule(pooled)
    size: Any = pool.output_size
    first = None if head is None else next((m for m in head.modules() if not m._modules), None)
    return first if isinstance(first, nn.Linear) else None, size[0] * size[1]


def detect(net: nn.Module, images: Tree) -> list[dict[str, Tensor]]:
    """A detector's boxes, labels and scores, one dict an image, with what they were made of, differentiably.

    Beside them stand, of two stages, `proposals` (boxes of the first stage, in the image's own pixels), `class_logits`
    of each (with the background first) and `box_deltas` (four a class), on which losses can be computed.
    """
    if not _two_stages(net):
        return net(list(images))
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
    """Names of a detector's parameters behind its body: pyramid, and heads or both stages.

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
    if not _two_stages(net):
        return _losses_of_one_stage(net, images, targets)
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


def _losses_of_one_stage(net: Any, images: Tree, targets: Tree) -> Tensor:
    recalled = vars(net.transform).pop("forward", None)  # that was without targets, which are to be resized too
    modes = net.training, net.transform.training
    try:
        # The network alone is asked for losses: what is inside it, dropout and normalisation, stays as it is.
        net.training, net.transform.training = True, False
        losses = net(list(images), list(targets))
    finally:
        net.training, net.transform.training = modes
        if recalled is not None:
            vars(net.transform)["forward"] = recalled
    return torch.stack([*losses.values()]).sum()


@contextmanager
def _boxes_alone(heads: Any, targets: Tree) -> Iterator[None]:
    """Without the heads for masks and keypoints, where the targets have none to learn from."""
    kept = {f"{part}_roi_pool": f"{part}s" for part in ("mask", "keypoint") if f"{part}_roi_pool" in heads._modules}
    silent = {name: heads._modules[name] for name, key in kept.items() if any(key not in each for each in targets)}
    heads._modules.update(dict.fromkeys(silent))
    try:
        yield
    finally:
        heads._modules.update(silent)


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
        with _boxes_alone(net.roi_heads, targets):
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
