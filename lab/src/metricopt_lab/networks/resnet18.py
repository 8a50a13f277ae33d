"""ResNet-18 for 32x32 images: He et al.'s (2016) eighteen layers behind a 3x3 stem."""

from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional

from metricopt_lab.networks.registry import MODELS


class ResNet18(nn.Module):
    """Four stages of two blocks with `width`, 2, 4 and 8 times as many channels, for small images.

    Args:
        width: Channels of the first stage; 64 in the ResNet paper.
        classes: Outputs.

    Example:
        >>> import torch
        >>> ResNet18(width=4)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    def __init__(self, width: int = 16, classes: int = 10) -> None:
        super().__init__()
        # A 7x7 convolution of stride 2 and a pooling, meant for 224x224, would leave 8x8 of the image.
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        sizes = [width, width, 2 * width, 4 * width, 8 * width]
        self.stages = nn.Sequential(*(nn.Sequential(_Block(a, b), _Block(b, b)) for a, b in pairwise(sizes)))
        self.fc = nn.Linear(sizes[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, classes) of images (n, 3, height, width)."""
        return self.fc(self.stages(self.stem(x)).mean(dim=(2, 3)))


class _Block(nn.Module):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        stride = after // before
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        projected = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
        self.shortcut = nn.Identity() if before == after else projected

    def forward(self, x: Tensor) -> Tensor:
        change = self.norm2(self.conv2(functional.relu(self.norm1(self.conv1(x)))))
        return functional.relu(change + self.shortcut(x))


def resnet18(classes: int = 10, width: int = 16) -> ResNet18:
    """A ResNet-18 that one core trains in half an hour, untrained: a quarter of the usual channels.

    Example:
        >>> sum(parameter.numel() for parameter in resnet18().parameters())
        701466
    """
    return ResNet18(width, classes)


# Called, not decorating: the registry's decorator would hide the function's own arguments from type checkers.
MODELS.add("resnet18")(resnet18)
