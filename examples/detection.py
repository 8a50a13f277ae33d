"""A detector and AP50: squares are found well, until the light is dimmed. Needs torchvision.

The first part makes a tiny Faster R-CNN and trains it for some seconds; yours is trained already. With a folder of your
own, `metricopt.data.boxes.voc_folder("folder").examples()` stands in place of `squares`.
"""

import torch
from torch import Tensor, nn

import metricopt as mo
from metricopt.crossfit import CrossFit, Kind


def squares(count: int, seed: int, light: float = 1.0) -> tuple[Tensor, list[dict[str, Tensor]]]:
    """Images with bright squares, red ones of class 1 and green ones of class 2, and their boxes."""
    draw = torch.Generator().manual_seed(seed)
    images, targets = 0.2 * torch.rand(count, 3, 64, 64, generator=draw), []
    for image in images:
        sides = torch.randint(12, 24, (2,), generator=draw).tolist()
        corners = [torch.randint(0, 64 - side, (2,), generator=draw).tolist() for side in sides]
        boxes = [[x, y, x + side, y + side] for side, (x, y) in zip(sides, corners, strict=True)]
        for channel, (x0, y0, x1, y1) in enumerate(boxes):
            image[channel, y0:y1, x0:x1] += 0.7
        targets.append({"boxes": torch.tensor(boxes).float(), "labels": torch.tensor([1, 2])})
    return light * images.clamp(0, 1), targets


class Backbone(nn.Module):
    """Two convolutions; the last one is all there is of a pyramid."""

    out_channels = 16

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 5, 4, 2), nn.ReLU(), nn.Conv2d(16, 16, 3, 1, 1), nn.ReLU())

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """One level of features."""
        return {"0": self.body(x)}


def trained() -> nn.Module:
    """A Faster R-CNN after 80 steps on bright squares."""
    from torchvision.models.detection import FasterRCNN
    from torchvision.models.detection.rpn import AnchorGenerator
    from torchvision.ops import MultiScaleRoIAlign

    torch.manual_seed(0)
    net = FasterRCNN(
        Backbone(), 3, min_size=64, max_size=64, rpn_anchor_generator=AnchorGenerator(((12, 20),), ((1.0,),)),
        box_roi_pool=MultiScaleRoIAlign(["0"], 4, 2), rpn_post_nms_top_n_test=15, rpn_post_nms_top_n_train=100,
        box_detections_per_img=20, box_batch_size_per_image=64,
    )  # fmt: skip
    images, targets = squares(64, seed=0)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    for step in range(80):
        some = range(8 * step % 64, 8 * step % 64 + 8)
        losses = net([images[i] for i in some], [targets[i] for i in some])
        optimizer.zero_grad()
        torch.stack(list(losses.values())).sum().backward()
        optimizer.step()
    return net


def main(report: str = "detection.html") -> mo.Result:
    """The fifteen lines."""
    detector = trained()
    result = mo.optimize(
        detector,
        metric="ap50",
        train=squares(16, seed=0),
        val=squares(40, seed=1, light=0.7),
        queries=8,
        batch_size=8,
        effort=CrossFit(
            folds=2, epochs=6, rates=(2e-3,), kinds=(Kind(balanced=False, mix=0.0),)
        ),  # yours: leave it out
    )
    print(result)
    images, targets = squares(30, seed=2, light=0.7)
    before, after = (mo.metrics.ap50().value(net(list(images)), targets) for net in (detector.eval(), result.merge()))
    result.report(report)  # with pictures: boxes won and lost
    print(f"AP50 on 30 test images: {before:.3f} -> {after:.3f}")
    return result


if __name__ == "__main__":
    main()
