"""Tiny detectors of torchvision's other kinds: three with one stage, and Mask R-CNN."""

from collections.abc import Callable

import torch
from tests.detection.tiny import TinyBackbone, squares, tiny_detector, torchvision
from torch import Tensor, nn

CLASSES = 3


class Levels(nn.Module):
    """Two levels of features without a pyramid, as SSD has them."""

    def __init__(self) -> None:
        super().__init__()
        self.out_channels = [8, 8]
        self.features = nn.Sequential(nn.Conv2d(3, 8, 5, 4, 2), nn.ReLU())
        self.extra = nn.ModuleList([nn.Sequential(nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU())])

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        first = self.features(x)
        return {"0": first, "1": self.extra[0](first)}


def _decided(net: nn.Module) -> nn.Module:
    """The same with scores that differ from box to box, as those of a new network do not, and a few boxes an image."""
    for layer in net.head.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight)
    net.eval()
    net.score_thresh = 0.0
    images, _ = squares(1, 0)
    net.score_thresh = net(images)[0]["scores"][8].item()
    return net


def retinanet() -> nn.Module:
    found = torchvision()
    from torchvision.models.detection.anchor_utils import AnchorGenerator

    anchors = AnchorGenerator(((12,), (24,)), ((1.0,),) * 2)
    return _decided(found.RetinaNet(TinyBackbone(), CLASSES, 64, 64, anchor_generator=anchors))


def fcos() -> nn.Module:
    found = torchvision()
    from torchvision.models.detection.anchor_utils import AnchorGenerator
    from torchvision.models.detection.fcos import FCOSHead

    # Its own head has groups of 32 channels.
    body, anchors = TinyBackbone(channels=32), AnchorGenerator(((8,), (16,)), ((1.0,),) * 2)
    head = FCOSHead(32, 1, CLASSES, num_convs=1)
    return _decided(found.FCOS(body, CLASSES, 64, 64, anchor_generator=anchors, head=head))


def ssd() -> nn.Module:
    torchvision()
    from torchvision.models.detection.anchor_utils import DefaultBoxGenerator
    from torchvision.models.detection.ssd import SSD

    anchors = DefaultBoxGenerator([[2], [2]], scales=[0.2, 0.3, 0.4])
    return SSD(Levels(), anchors, (64, 64), CLASSES, detections_per_img=30)


def ssdlite() -> nn.Module:
    """SSD with pairs of layers in its head."""
    from torchvision.models.detection.ssdlite import SSDLiteHead

    net = ssd()
    net.head = SSDLiteHead([8, 8], [4, 4], CLASSES, nn.BatchNorm2d)
    return net


KINDS: dict[str, Callable[[], nn.Module]] = {"RetinaNet": retinanet, "FCOS": fcos, "SSD": ssd, "SSDLite": ssdlite}


def untrained(kind: str) -> nn.Module:
    """One of the `KINDS` in eval mode."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return KINDS[kind]().eval()


def mask_rcnn() -> nn.Module:
    """The tiny two-stage detector with a head for masks."""
    found = torchvision()
    from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor
    from torchvision.ops import MultiScaleRoIAlign

    plain = tiny_detector()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return found.MaskRCNN(
            plain.backbone,
            min_size=64,
            max_size=64,
            rpn_anchor_generator=plain.rpn.anchor_generator,
            rpn_head=plain.rpn.head,
            rpn_post_nms_top_n_test=20,
            box_roi_pool=plain.roi_heads.box_roi_pool,
            box_head=plain.roi_heads.box_head,
            box_predictor=plain.roi_heads.box_predictor,
            mask_roi_pool=MultiScaleRoIAlign(["0", "1"], 4, 2, canonical_scale=32, canonical_level=3),
            mask_head=MaskRCNNHeads(8, (8,), 1),
            mask_predictor=MaskRCNNPredictor(8, 8, CLASSES),
        ).eval()
