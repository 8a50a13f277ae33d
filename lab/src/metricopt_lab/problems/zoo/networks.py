"""The networks of the zoo: the paper's MLP, heads on frozen embeddings, and a small ConvNet."""

import torch
from torch import Tensor, nn

from metricopt.core.seeding import derived_seed
from metricopt_lab.networks import TabularMLP


class TinyConvNet(nn.Module):
    """Three convolutions with BatchNorm and a linear layer for 32x32 images: a million products an image.

    Example:
        >>> TinyConvNet()(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    def __init__(self, outputs: int = 10, *, width: int = 20) -> None:
        super().__init__()
        sizes = ((3, width, 2), (width, 2 * width, 2), (2 * width, 4 * width, 2))
        self.blocks = nn.Sequential(*(_block(*size) for size in sizes))
        self.output = nn.Linear(4 * width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, outputs) of images (n, 3, 32, 32)."""
        return self.output(self.blocks(x).mean((2, 3)))


def _block(before: int, after: int, stride: int) -> nn.Sequential:
    convolution = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(after), nn.ReLU())


def untrained(inputs: Tensor, classes: int, *, seed: int) -> nn.Module:
    """A network that fits the inputs: a ConvNet for images, a head for embeddings, else the paper's MLP."""
    # Layers draw their first weights from torch's global state, which is none of ours to move.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(seed, "initial weights"))
        if inputs.ndim == 4:
            return TinyConvNet(classes)
        hidden = (128, 64) if inputs.shape[1] == 384 else (100, 30, 10)
        return TabularMLP(inputs.shape[1], outputs=1 if classes == 2 else classes, hidden=hidden)
