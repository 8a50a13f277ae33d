"""CIFAR-10 behind the layers that no phi reaches: many adapters of one network then share what these compute."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional

from metricopt.data.dataset import Examples
from metricopt_lab.networks.convnet import SmallConvNet
from metricopt_lab.networks.resnet import CifarResNet
from metricopt_lab.problems import Problem, cifar

_ROWS = 500


def cifar_tail(network: str, *, scale: str, seed: int) -> Problem:
    """The paper's problem for a network, without the layers that no phi reaches; at scale "paper" phi reaches all.

    Example:
        >>> cifar_tail("small_convnet", scale="smoke", seed=0).train.inputs.shape  # doctest: +SKIP
        torch.Size([400, 4096])
    """
    whole = cifar(network, scale=scale, seed=seed)
    return whole if scale == "paper" else without_front(whole)


@final
class SmallTail(nn.Module):
    """The dense layers of `SmallConvNet`, on what its convolutions give.

    Example:
        >>> SmallTail(SmallConvNet())(torch.zeros(2, 64 * 8 * 8)).shape
        torch.Size([2, 10])
    """

    def __init__(self, net: SmallConvNet) -> None:
        super().__init__()
        self.fc1, self.fc2, self.output = net.fc1, net.fc2, net.output

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, outputs) of features (n, 4096)."""
        return self.output(functional.relu(self.fc2(functional.relu(self.fc1(x)))))


@final
class ResNetTail(nn.Module):
    """The last block and the last layer of `CifarResNet`, on what the blocks before give; layers keep their names.

    Example:
        >>> ResNetTail(CifarResNet(blocks=2))(torch.zeros(2, 64, 8, 8)).shape
        torch.Size([2, 10])
    """

    def __init__(self, net: CifarResNet) -> None:
        super().__init__()
        self.last = str(len(net.stage3) - 1)
        self.stage3 = nn.ModuleDict({self.last: net.stage3[-1]})
        self.fc = net.fc

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, classes) of features (n, 64, height, width)."""
        return self.fc(self.stage3[self.last](x).mean(dim=(2, 3)))


def _small_front(net: nn.Module, x: Tensor) -> Tensor:
    assert isinstance(net, SmallConvNet)
    x = net.pool(net.conv1(x).relu())
    return net.pool(net.conv2(x).relu()).flatten(1)


def _resnet_front(net: nn.Module, x: Tensor) -> Tensor:
    assert isinstance(net, CifarResNet)
    return net.stage3[:-1](net.stage2(net.stage1(net.stem(x))))


_FRONTS: Mapping[type[nn.Module], tuple[Callable[[nn.Module, Tensor], Tensor], Callable[..., nn.Module]]]
_FRONTS = MappingProxyType({SmallConvNet: (_small_front, SmallTail), CifarResNet: (_resnet_front, ResNetTail)})


def without_front(problem: Problem) -> Problem:
    """The same problem with features in place of images, for adapters of the last layers: same outputs, less work.

    What is before the dense layers, or before the last block, is computed here, once for all adapters.

    Example:
        >>> from metricopt.adapters import LastLayer
        >>> from metricopt.losses import cross_entropy
        >>> from metricopt.metrics import mcr
        >>> data = Examples(torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0)), torch.arange(4))
        >>> whole = Problem("toy", SmallConvNet(), LastLayer(), cross_entropy, mcr(), train=data, search=data,
        ...                 accept=data, test=data, sampling="plain", batch_size=4, notes="made up", seed=0)
        >>> without_front(whole).train.inputs.shape
        torch.Size([4, 4096])
    """
    front, tail = _FRONTS[type(problem.net)]
    net = problem.net.eval()
    return replace(
        problem,
        net=tail(net).eval(),
        train=_features(net, front, problem.train),
        search=_features(net, front, problem.search),
        accept=_features(net, front, problem.accept),
        test=_features(net, front, problem.test),
    )


def _features(net: nn.Module, front: Callable[[nn.Module, Tensor], Tensor], data: Examples) -> Examples:
    with torch.no_grad():
        return Examples(torch.cat([front(net, rows) for rows in data.inputs.split(_ROWS)]), data.targets)
