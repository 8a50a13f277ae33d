"""ResNet for CIFAR (He et al. 2016, section 4.2)."""

from torch import Tensor, nn
from torch.nn import functional

from metricopt_lab.networks.registry import MODELS


class CifarResNet(nn.Module):
    """ResNet of depth 6 * blocks + 2 for 32x32 images: three stages of 16, 32 and 64 channels.

    Shortcuts have no parameters: where a stage halves the image and doubles the channels, they take every second
    pixel and pad the new channels with zeros, half of them before, half after.

    Args:
        blocks: Residual blocks per stage (n in the ResNet paper).
        classes: Outputs.

    Example:
        >>> import torch
        >>> CifarResNet(blocks=1)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    def __init__(self, blocks: int = 5, classes: int = 10) -> None:
        super().__init__()
        self.stem = _Stem()
        self.stage1 = _stage(16, 16, blocks)
        self.stage2 = _stage(16, 32, blocks)
        self.stage3 = _stage(32, 64, blocks)
        self.fc = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, classes) of images (n, 3, height, width)."""
        x = self.stage3(self.stage2(self.stage1(self.stem(x))))
        return self.fc(x.mean(dim=(2, 3)))


class _Stem(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = _conv3x3(3, 16)
        self.norm = nn.BatchNorm2d(16)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.norm(self.conv(x)))


class _Block(nn.Module):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.stride = after // before
        self.padding = (after - before) // 2
        self.conv1 = _conv3x3(before, after, self.stride)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = _conv3x3(after, after)
        self.norm2 = nn.BatchNorm2d(after)

    def forward(self, x: Tensor) -> Tensor:
        change = self.norm2(self.conv2(functional.relu(self.norm1(self.conv1(x)))))
        return functional.relu(change + self._shortcut(x))

    def _shortcut(self, x: Tensor) -> Tensor:
        if self.padding == 0:
            return x
        return functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.padding, self.padding))


def _stage(before: int, after: int, blocks: int) -> nn.Sequential:
    return nn.Sequential(_Block(before, after), *(_Block(after, after) for _ in range(blocks - 1)))


def _conv3x3(before: int, after: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)


def resnet32(classes: int = 10) -> CifarResNet:
    """The paper's ResNet-32 for CIFAR-10, untrained.

    Example:
        >>> sum(parameter.numel() for parameter in resnet32().parameters())
        464154
    """
    return CifarResNet(blocks=5, classes=classes)


# Called, not decorating: the registry's decorator would hide the function's own arguments from type checkers.
MODELS.add("resnet32")(resnet32)
