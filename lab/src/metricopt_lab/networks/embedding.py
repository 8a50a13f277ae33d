"""Networks that embed images for retrieval: a small one for Omniglot, and ResNet-50 as in the paper."""

from torch import Tensor, nn
from torch.nn import functional

from metricopt_lab.networks.registry import MODELS

_CHANNELS = 64


class OmniglotEmbedding(nn.Module):
    """Four blocks of convolution 3 x 3, BatchNorm and ReLU, 35 -> 18 -> 9 -> 4 -> 2, and 64 dimensions of length 1.

    The first convolution strides by 2, the other blocks end in a max-pool by 2.

    Args:
        outputs: Dimensions of the embedding.

    Example:
        >>> import torch
        >>> OmniglotEmbedding()(torch.rand(2, 1, 35, 35)).norm(dim=1).round(decimals=4).tolist()
        [1.0, 1.0]
    """

    def __init__(self, outputs: int = 64) -> None:
        super().__init__()
        sizes = ((1, 2), (_CHANNELS, 1), (_CHANNELS, 1), (_CHANNELS, 1))
        self.conv = nn.ModuleList(nn.Conv2d(size, _CHANNELS, 3, stride, 1, bias=False) for size, stride in sizes)
        self.norm = nn.ModuleList(nn.BatchNorm2d(_CHANNELS) for _ in sizes)
        self.out = nn.Linear(4 * _CHANNELS, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Embeddings (n, outputs) of images (n, 1, 35, 35)."""
        x = self.norm[0](self.conv[0](x)).relu()
        for block in range(1, 4):
            x = functional.max_pool2d(self.norm[block](self.conv[block](x)).relu(), 2)
        return functional.normalize(self.out(x.flatten(1)))


def omniglot_embedding(outputs: int = 64) -> OmniglotEmbedding:
    """The network for Omniglot, untrained.

    Example:
        >>> sum(weight.numel() for weight in omniglot_embedding().parameters())
        128128
    """
    return OmniglotEmbedding(outputs)


class ResNet50Embedding(nn.Module):
    """torchvision's ResNet-50 with a linear layer to 512 dimensions of length 1: the paper's network for retrieval.

    Args:
        outputs: Dimensions of the embedding.
        pretrained: Whether it starts from ImageNet, which torchvision downloads.
    """

    def __init__(self, outputs: int = 512, *, pretrained: bool = False) -> None:
        super().__init__()
        # Imported here: only the paper's scale needs it.
        from torchvision.models import ResNet50_Weights, resnet50  # pyright: ignore[reportMissingImports]

        self.body = resnet50(weights=ResNet50_Weights.IMAGENET1K_V2 if pretrained else None)
        self.body.fc = nn.Linear(self.body.fc.in_features, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Embeddings (n, outputs) of images (n, 3, 224, 224)."""
        return functional.normalize(self.body(x))


# Called, not decorating: the registry's decorator would hide the function's own arguments from type checkers.
MODELS.add("omniglot_embedding")(omniglot_embedding)
