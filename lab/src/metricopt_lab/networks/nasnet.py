"""NASNet-A for 32x32 images (Zoph et al. 2018, Figure 4), with few cells and filters."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from metricopt_lab.networks.registry import MODELS


class NASNetA(nn.Module):
    """NASNet-A for CIFAR: `cells` normal cells, a reduction cell, and so on, twice, then `cells` normal ones.

    The cells are those of the paper, without its ScheduledDropPath and auxiliary head: a network this small, trained
    for minutes, has no need of them.

    Args:
        cells: Normal cells between reductions (N); the paper's for CIFAR have 6.
        filters: Of the first cells, doubled by every reduction (F); the paper's have 32 and more.
        classes: Outputs.
        stride: Of the stem: 2 has cells see 16x16 of a 32x32 image, at a quarter of the cost.

    Example:
        >>> NASNetA(cells=1, filters=4)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    def __init__(self, cells: int = 1, filters: int = 12, classes: int = 10, stride: int = 1) -> None:
        super().__init__()
        stem = 3 * filters
        self.stem = nn.Sequential(nn.Conv2d(3, stem, 3, stride, padding=1, bias=False), nn.BatchNorm2d(stem))
        self.cells = nn.ModuleList()
        before, now, halved = stem, stem, False
        for stage in range(3):
            if stage:
                self.cells.append(_Cell(before, now, filters * 2**stage, reduces=True, halved=False))
                before, now, halved = now, 4 * filters * 2**stage, True
            for _ in range(cells):
                self.cells.append(_Cell(before, now, filters * 2**stage, reduces=False, halved=halved))
                before, now, halved = now, 6 * filters * 2**stage, False
        self.fc = nn.Linear(now, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, classes) of images (n, 3, height, width)."""
        before = now = self.stem(x)
        for cell in self.cells:
            before, now = now, cell(before, now)
        return self.fc(functional.relu(now).mean(dim=(2, 3)))


class _Cell(nn.Module):
    """Five blocks of two operations each, over the outputs of the last two cells (Figure 4, left and right)."""

    def __init__(self, before: int, now: int, filters: int, *, reduces: bool, halved: bool) -> None:
        super().__init__()
        # After a reduction the output before it is twice as large.
        self.before = _Halving(before, filters) if halved else _Squeeze(before, filters)
        self.now = _Squeeze(now, filters)
        self.reduces = reduces
        sizes = (7, 5, 7, 5, 3) if reduces else (3, 3, 5, 5, 3)
        strides = (2, 2, 2, 2, 1) if reduces else (1,) * 5
        pairs = zip(sizes, strides, strict=True)
        self.separable = nn.ModuleList(_Separable(filters, size, stride) for size, stride in pairs)

    def forward(self, before: Tensor, now: Tensor) -> Tensor:
        p, h = self.before(before), self.now(now)
        return self._reduced(p, h) if self.reduces else self._normal(p, h)

    def _normal(self, p: Tensor, h: Tensor) -> Tensor:
        first, second, third, fourth, fifth = self.separable
        average = _average(p)
        blocks = [first(h) + h, second(p) + third(h), _average(h) + p, average + average, fourth(p) + fifth(p)]
        return torch.cat([p, *blocks], 1)

    def _reduced(self, p: Tensor, h: Tensor) -> Tensor:
        first, second, third, fourth, fifth = self.separable
        highest = functional.max_pool2d(h, 3, stride=2, padding=1)
        one = first(p) + second(h)
        two = highest + third(p)
        three = _average(h, 2) + fourth(p)
        return torch.cat([two, three, highest + fifth(one), _average(one) + two], 1)


class _Separable(nn.Module):
    """ReLU, separable convolution and BatchNorm, twice; the first has the stride."""

    def __init__(self, filters: int, size: int, stride: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(*_separable(filters, size, stride), *_separable(filters, size, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def _separable(filters: int, size: int, stride: int) -> list[nn.Module]:
    depthwise = nn.Conv2d(filters, filters, size, stride, padding=size // 2, groups=filters, bias=False)
    return [nn.ReLU(), depthwise, nn.Conv2d(filters, filters, 1, bias=False), nn.BatchNorm2d(filters)]


class _Squeeze(nn.Module):
    def __init__(self, before: int, filters: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(before, filters, 1, bias=False)
        self.norm = nn.BatchNorm2d(filters)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(functional.relu(x)))


class _Halving(nn.Module):
    """Half the size by two paths, of which the second sees the pixels between those of the first."""

    def __init__(self, before: int, filters: int) -> None:
        super().__init__()
        self.even = nn.Conv2d(before, filters // 2, 1, bias=False)
        self.odd = nn.Conv2d(before, filters - filters // 2, 1, bias=False)
        self.norm = nn.BatchNorm2d(filters)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(x)
        shifted = functional.pad(x, (0, 1, 0, 1))[:, :, 1::2, 1::2]
        return self.norm(torch.cat([self.even(x[:, :, ::2, ::2]), self.odd(shifted)], 1))


def _average(x: Tensor, stride: int = 1) -> Tensor:
    return functional.avg_pool2d(x, 3, stride=stride, padding=1, count_include_pad=False)


def nasnet_a(classes: int = 10, filters: int = 12) -> NASNetA:
    """A NASNet-A that one core trains in half an hour, untrained.

    Example:
        >>> sum(parameter.numel() for parameter in nasnet_a().parameters())
        137398
    """
    return NASNetA(cells=1, filters=filters, classes=classes, stride=2)


# Called, not decorating: the registry's decorator would hide the function's own arguments from type checkers.
MODELS.add("nasnet_a")(nasnet_a)
