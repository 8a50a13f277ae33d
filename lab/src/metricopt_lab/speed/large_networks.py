"""Networks of the sizes that people bring, with random weights: a small transformer, a ResNet-18 and a detector."""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn


class SentenceTransformer(nn.Module):
    """Six layers of width 384 over a vocabulary of 30,522 tokens: the size of MiniLM, with a head of two classes.

    Example:
        >>> SentenceTransformer(layers=1, vocabulary=50)(torch.ones(2, 8).long()).shape
        torch.Size([2, 2])
    """

    def __init__(self, layers: int = 6, vocabulary: int = 30_522) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, 384)
        self.places = nn.Parameter(0.02 * torch.randn(512, 384))
        layer = nn.TransformerEncoderLayer(384, 12, 1536, dropout=0.1, batch_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(384, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of two classes for tokens (n, length)."""
        return self.head(self.layers(self.tokens(tokens) + self.places[: tokens.shape[1]]).mean(1))


class _Block(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(after)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.last = nn.BatchNorm2d(after)
        plain = before == after and stride == 1
        self.skip: nn.Module = nn.Identity()
        if not plain:
            self.skip = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.last(self.second(torch.relu(self.norm(self.first(x))))) + self.skip(x))


def resnet18(classes: int = 10) -> nn.Module:
    """ResNet-18 for images of 32 pixels, as is usual for CIFAR: 11 million weights.

    Example:
        >>> round(sum(weights.numel() for weights in resnet18().parameters()) / 1e6)
        11
    """
    widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
    blocks = [_Block(before, after, 1 if before == after else 2) for before, after in pairwise(widths)]
    stem = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


class Detector(nn.Module):
    """A list of images in, a list of boxes and scores out, over a backbone of 5 million weights.

    Example:
        >>> sorted(Detector()([torch.zeros(3, 64, 64)])[0])
        ['boxes', 'scores']
    """

    def __init__(self) -> None:
        super().__init__()
        widths = [3, 32, 64, 128, 256, 512]
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Conv2d(before, after, 3, 2, 1), nn.BatchNorm2d(after), nn.ReLU()]
        layers += [nn.Conv2d(512, 512, 3, 1, 1), nn.BatchNorm2d(512), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        self.head = nn.Conv2d(512, 5, 1)

    def forward(self, images: list[Tensor]) -> list[dict[str, Tensor]]:
        """Boxes (cells, 4) and scores (cells,) of each image."""
        found = self.head(self.body(torch.stack(list(images)))).flatten(2).transpose(1, 2)  # (n, cells, 5)
        return [{"boxes": each[:, :4].sigmoid(), "scores": each[:, 4].sigmoid()} for each in found]


def detection_loss(outputs: Any, targets: Any) -> Tensor:
    """Distance of the mean score to whether there is an object, and of boxes to the true one.

    Example:
        >>> outputs = [{"boxes": torch.zeros(3, 4), "scores": torch.zeros(3)}]
        >>> float(detection_loss(outputs, [{"boxes": torch.zeros(4), "object": torch.tensor(1.0)}]))
        1.0
    """
    parts = [
        (found["scores"].mean() - truth["object"]).square() + (found["boxes"].mean(0) - truth["boxes"]).square().mean()
        for found, truth in zip(outputs, targets, strict=True)
    ]
    return torch.stack(parts).mean()
