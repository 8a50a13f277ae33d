"""Tiny ImageNet, where the paper has ImageNet: a small network for 64 classes, its convolutions from CIFAR-10."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor, nn

from metricopt.adapters import FiLM
from metricopt.core.seeding import stream
from metricopt.data.dataset import Examples
from metricopt.losses import cross_entropy
from metricopt.metrics import Metric
from metricopt_lab.data.tiny_imagenet import CLASSES, SOURCE, tiny_imagenet
from metricopt_lab.networks import SmallConvNet, small_convnet
from metricopt_lab.problems.pretrained import pretrained_small_convnet
from metricopt_lab.problems.problem import Problem


@dataclass(frozen=True)
class TinyScale:
    """How many images of each kind, and how long the network is trained.

    Example:
        >>> TINY_SCALES["small"].search
        3000
    """

    train: int
    search: int
    accept: int
    test: int
    epochs: int


TINY_SCALES: Mapping[str, TinyScale] = MappingProxyType(
    {
        "smoke": TinyScale(300, 100, 60, 100, epochs=1),
        "small": TinyScale(14_400, 3_000, 1_800, 3_200, epochs=8),
        "paper": TinyScale(14_400, 3_000, 1_800, 3_200, epochs=30),
    }
)
"""Scales by name; ImageNet itself is beyond any, so "paper" has the paper's tasks and queries only."""


def tiny_problem(metric: Metric, *, scale: str, seed: int) -> Problem:
    """The small network with its layers behind the convolutions trained for Tiny ImageNet, and FiLM of these."""
    size, (train, test) = TINY_SCALES[scale], tiny_imagenet()
    order = torch.randperm(len(train), generator=stream(seed, "tiny imagenet"))
    parts = [_rows(train, some) for some in order[: size.train + size.search + size.accept].split(
        [size.train, size.search, size.accept])]  # fmt: skip
    picked = torch.randperm(len(test), generator=stream(0, "tiny imagenet", "test"))[: size.test]
    net = _trained(parts[0], size.epochs, seed=seed)
    notes = (
        f"{SOURCE}: the convolutions of the shipped small network for CIFAR-10 as they are, fully connected layers "
        f"trained on {size.train} images for {size.epochs} epochs; {size.search} images to query, {size.accept} to "
        f"accept, {size.test} test images; FiLM of fc1, fc2 with d = 128"
    )
    return Problem(
        "tiny_imagenet", net, FiLM(dim=128, layers=("fc1", "fc2")), cross_entropy, metric, train=parts[0],
        search=parts[1], accept=parts[2], test=_rows(test, picked), sampling="plain", batch_size=128, notes=notes,
        seed=seed,
    )  # fmt: skip


def _rows(data: Examples, index: Tensor) -> Examples:
    return Examples(data.inputs[index].contiguous(memory_format=torch.channels_last), data.targets[index])


def _trained(train: Examples, epochs: int, *, seed: int) -> SmallConvNet:
    """Fully connected layers trained with Adam on what the convolutions, which stay, make of the images."""
    net = _untrained(seed)
    with torch.no_grad():
        features = torch.cat([_convolved(net, some) for some in train.inputs.split(500)])  # (n, 4096)
    learnt = [*net.fc1.parameters(), *net.fc2.parameters(), *net.output.parameters()]
    adam = torch.optim.Adam(learnt, lr=1e-3, weight_decay=1e-4)
    for epoch in range(epochs):
        for group in adam.param_groups:
            group["lr"] = 1e-3 * (1 - epoch / epochs)
        for rows in torch.randperm(len(train), generator=stream(seed, "tiny training", epoch)).split(128):
            adam.zero_grad()
            outputs = net.output(net.fc2(net.fc1(features[rows]).relu()).relu())
            nn.functional.cross_entropy(outputs, train.targets[rows]).backward()
            adam.step()
    net.zero_grad()
    return net.eval()


def _untrained(seed: int) -> SmallConvNet:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = small_convnet(CLASSES)
    shipped = pretrained_small_convnet()
    net.conv1, net.conv2 = shipped.conv1, shipped.conv2
    return net.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]


def _convolved(net: SmallConvNet, images: Tensor) -> Tensor:
    return net.pool(net.conv2(net.pool(net.conv1(images).relu())).relu()).flatten(1)
