"""A small convolutional network, where the paper uses that of Eban et al. (2017) for AUCPR on CIFAR-10."""

from torch import Tensor, nn

from metricopt_lab.networks.registry import MODELS


class SmallConvNet(nn.Module):
    """Two 5x5 convolutions of 64 channels, each pooled to half the size, then 384 and 192 units, for 32x32 images.

    A stand-in for the network of Eban et al.: the sizes are meant to be theirs, padding and pooling are our choice. It
    has no norm layers, so FiLM must be told where to act: `FiLM(layers="conv*")`.

    Args:
        outputs: Logits per image.

    Example:
        >>> import torch
        >>> SmallConvNet()(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    def __init__(self, outputs: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 5, padding=2)
        self.conv2 = nn.Conv2d(64, 64, 5, padding=2)
        self.pool = nn.MaxPool2d(2)
        self.fc1 = nn.Linear(64 * 8 * 8, 384)
        self.fc2 = nn.Linear(384, 192)
        self.output = nn.Linear(192, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, outputs) of images (n, 3, 32, 32)."""
        x = self.pool(self.conv1(x).relu())  # (n, 64, 16, 16)
        x = self.pool(self.conv2(x).relu())  # (n, 64, 8, 8)
        x = self.fc1(x.flatten(1)).relu()
        return self.output(self.fc2(x).relu())


def small_convnet(outputs: int = 10) -> SmallConvNet:
    """The stand-in for the network of Eban et al., untrained.

    Example:
        >>> type(small_convnet(outputs=1)).__name__
        'SmallConvNet'
    """
    return SmallConvNet(outputs)


# Called, not decorating: the registry's decorator would hide the function's own arguments from type checkers.
MODELS.add("small_convnet")(small_convnet)
