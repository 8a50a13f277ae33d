"""Networks trained before: those that come with the package, and a user's own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor, nn

from metricopt.core import files
from metricopt.core.errors import FileFormatError
from metricopt_lab import data
from metricopt_lab.networks import MODELS, CifarResNet, SmallConvNet, resnet32, small_convnet

VERSION = 1
KIND = "network"

SHIPPED = Path(data.__file__).parent / "files"
"""Where those are that come with the package: a file of weights each, or a folder as `metricopt pretrain` leaves it."""


def pretrained_resnet32() -> CifarResNet:
    """The shipped ResNet-32 for CIFAR-10 in eval mode: accuracy .8836 on its validation images, .8786 on test images.

    It was trained with cross-entropy on the training part of `metricopt.data.cifar10_split` and takes inputs
    normalised as there. The paper's network, trained about 20 times longer, has .9249 on test images.

    Example:
        >>> net = pretrained_resnet32()
        >>> net.training, net.fc.out_features
        (False, 10)
    """
    net = resnet32()
    net.load_state_dict(_shipped("cifar10_resnet32"))
    return net.eval()


def pretrained_small_convnet() -> SmallConvNet:
    """The shipped small network for CIFAR-10 in eval mode: accuracy .7916 on validation images, .7959 on test images.

    `metricopt pretrain small_convnet` made it, with cross-entropy; its weights were then rounded to half precision for
    the sake of the package's size. The paper's network for AUCPR is another one, see `SmallConvNet`.

    Example:
        >>> net = pretrained_small_convnet()
        >>> net.training, net.output.out_features
        (False, 10)
    """
    net = small_convnet()
    net.load_state_dict({name: tensor.float() for name, tensor in _shipped("cifar10_small_convnet").items()})
    return net.eval()


def _shipped(name: str) -> dict[str, Tensor]:
    return safetensors.torch.load((SHIPPED / f"{name}.safetensors").read_bytes())


def save_network(folder: Path, model: str, net: nn.Module, facts: Mapping[str, Any]) -> None:
    """Keep a network of the registry in a folder, with facts about it, in place of one that is there.

    Example:
        >>> import tempfile
        >>> from metricopt_lab.networks import small_convnet
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_network(Path(folder), "small_convnet", small_convnet(), {"accuracy": 0.1})
        ...     load_network(Path(folder)).training
        False
    """
    files.save(folder, KIND, {**facts, "model": model}, net.state_dict(), version=VERSION)


def load_network(folder: Path | str) -> nn.Module:
    """The network that `metricopt pretrain` left in a folder, in eval mode.

    Example:
        >>> load_network("nowhere")
        Traceback (most recent call last):
        ...
        metricopt.core.errors.FileFormatError: nowhere/network.json cannot be read (No such file or directory); ...
    """
    saved = files.load(folder, KIND, version=VERSION)
    model = saved.fact("model", str)
    options = {"classes": saved.fact("classes", int)} if "classes" in saved.facts else {}
    net = MODELS[model](**options)
    _check_fit(net, saved.tensors, f"{folder} ({model})")
    net.load_state_dict(saved.tensors)
    return net.eval()


def _check_fit(net: nn.Module, tensors: Mapping[str, Tensor], origin: str) -> None:
    expected = {name: tuple(tensor.shape) for name, tensor in net.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            raise FileFormatError(
                f"{origin} has {name} of shape {found.get(name)}; expected {expected.get(name)}: it is the file of "
                f"another network"
            )
