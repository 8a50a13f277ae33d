"""A Faster R-CNN small enough for tests: two convolutions as its body, images of 64 pixels with bright squares."""

from collections import OrderedDict

import pytest
import torch
from torch import Tensor, nn


def torchvision():
    """The library; tests that need it are skipped where it cannot be imported."""
    try:
        import torchvision.models.detection as found
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"torchvision cannot be imported: {error}", allow_module_level=True)
    return found


class TinyBackbone(nn.Module):
    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        from torchvision.ops import FeaturePyramidNetwork

        self.out_channels = channels
        self.body = nn.ModuleDict(
            {"0": nn.Conv2d(3, 6, 5, stride=4, padding=2), "1": nn.Conv2d(6, 8, 3, stride=2, padding=1)}
        )
        self.fpn = FeaturePyramidNetwork([6, 8], channels)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        first = self.body["0"](x).relu()
        return self.fpn(OrderedDict([("0", first), ("1", self.body["1"](first).relu())]))


def tiny_detector(seed: int = 0) -> nn.Module:
    found = torchvision()
    from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
    from torchvision.models.detection.rpn import AnchorGenerator
    from torchvision.ops import MultiScaleRoIAlign

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return found.FasterRCNN(
            TinyBackbone(),
            min_size=64,
            max_size=64,
            rpn_anchor_generator=AnchorGenerator(((12,), (24,)), ((1.0,),) * 2),
            rpn_post_nms_top_n_test=20,
            box_roi_pool=MultiScaleRoIAlign(["0", "1"], 4, 2, canonical_scale=32, canonical_level=3),
            box_head=TwoMLPHead(8 * 16, 16),
            box_predictor=FastRCNNPredictor(16, 3),
            box_score_thresh=0.02,
        ).eval()


def squares(count: int, seed: int, *, size: int = 64) -> tuple[list[Tensor], list[dict[str, Tensor]]]:
    """Images with up to three squares, red ones of class 1 and green ones of class 2, and their boxes."""
    draw = torch.Generator().manual_seed(seed)
    images, targets = [], []
    for _ in range(count):
        image = 0.2 * torch.rand(3, size, size, generator=draw)
        boxes, labels = [], []
        for _ in range(int(torch.randint(1, 4, (1,), generator=draw))):
            side = int(torch.randint(10, 22, (1,), generator=draw))
            x, y = torch.randint(0, size - side, (2,), generator=draw).tolist()
            label = int(torch.randint(1, 3, (1,), generator=draw))
            image[:, y : y + side, x : x + side] *= 0.5
            image[label - 1, y : y + side, x : x + side] += 0.7
            boxes.append([x, y, x + side, y + side])
            labels.append(label)
        images.append(image.clamp(0, 1))
        targets.append({"boxes": torch.tensor(boxes).float(), "labels": torch.tensor(labels)})
    return images, targets


def trained(steps: int = 60) -> nn.Module:
    """The detector after some steps on squares."""
    net = tiny_detector().train()
    images, targets = squares(32, 0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
        for step in range(steps):
            some = [(8 * step + k) % 32 for k in range(8)]
            losses = net([images[i] for i in some], [targets[i] for i in some])
            optimizer.zero_grad()
            torch.stack(list(losses.values())).sum().backward()
            optimizer.step()
    return net.eval()
