"""Networks that embed images for retrieval: a small one for Omniglot, and ResNet-50 as in the paper."""

import copy

import torch
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
        x = functional.max_pool2d(self.norm[3](self.conv[3](self.backbone(x))).relu(), 2)
        return functional.normalize(self.out(x.flatten(1)))

    def backbone(self, x: Tensor) -> Tensor:
        """What the first three blocks give for images, (n, 64, 4, 4): nearly all of the time."""
        x = self.norm[0](self.conv[0](x)).relu()
        for block in (1, 2):
            x = functional.max_pool2d(self.norm[block](self.conv[block](x)).relu(), 2)
        return x

    def head(self) -> "EmbeddingHead":
        """The last block and the last layer as a network of their own, in eval mode."""
        return EmbeddingHead(self)


class EmbeddingHead(nn.Module):
    """What comes after the backbone, for whoever leaves that as it is and computes it once an image.

    Args:
        whole: The network whose last block and layer are copied.

    Example:
        >>> import torch
        >>> whole, images = OmniglotEmbedding().eval(), torch.rand(2, 1, 35, 35)
        >>> bool(torch.allclose(whole.head()(whole.backbone(images)), whole(images), atol=1e-6))
        True
    """

    def __init__(self, whole: OmniglotEmbedding) -> None:
        super().__init__()
        self.conv, self.norm, self.out = (copy.deepcopy(part) for part in (whole.conv[3], whole.norm[3], whole.out))
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Embeddings (n, outputs) of what the backbone gives, (n, 64, 4, 4)."""
        x = functional.max_pool2d(self.norm(self.conv(x)).relu(), 2)
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

    mean: Tensor
    std: Tensor

    def __init__(self, outputs: int = 512, *, pretrained: bool = False) -> None:
        super().__init__()
        # Imported here: only the paper's scale needs it.
        from torchvision.models import ResNet50_Weights, resnet50  # pyright: ignore[reportMissingImports]

        self.body = resnet50(weights=ResNet50_Weights.IMAGENET1K_V2 if pretrained else None)
        self.body.fc = nn.Linear(self.body.fc.in_features, outputs)
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1))  # ImageNet's
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Embeddings (n, outputs) of images (n, 3, 224, 224), as bytes or as numbers from 0 to 1."""
        x = x / 255 if x.dtype == torch.uint8 else x
        return functional.normalize(self.body((x - self.mean) / self.std))


# Called, not decorating: the registry's decorator would hide the function's own arguments from type checkers.
MODELS.add("omniglot_embedding")(omniglot_embedding)
