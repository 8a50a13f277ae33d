"""How much of the images, which layers, and how many steps and queries, at each scale of Table 4."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import torch
from torch import nn

from metricopt.adapters import FiLM
from metricopt.core.errors import DataError, FileFormatError
from metricopt.core.seeding import derived_seed, stream
from metricopt.data.dataset import Examples
from metricopt.losses import cross_entropy
from metricopt.metrics import mcr
from metricopt.paper.settings import PAPER, Stages
from metricopt.paper.training import Training
from metricopt_lab.data.cifar10 import Cifar10Split
from metricopt_lab.data.download import cache_folder
from metricopt_lab.networks import MODELS
from metricopt_lab.problems import Problem
from metricopt_lab.problems.image_sets import image_set
from metricopt_lab.problems.pretrain import pretrain
from metricopt_lab.problems.pretrained import SHIPPED, load_network


@dataclass(frozen=True)
class Scale:
    """What a scale grants.

    Attributes:
        train: Training images that losses are taken on.
        search: Validation images that the metric is queried on.
        test: Test images.
        dim: d, size of phi.
        stages: The paper's, with T steps and K observations a task.
        queries: Of meta-training, and of a search on the spot.
        layers: Patterns of the layers that FiLM modulates, by network.
        batch_size: Images a mini-batch.

    Example:
        >>> SCALES["paper"].dim, SCALES["paper"].stages.steps
        (256, 500)
    """

    train: int
    search: int
    test: int
    dim: int
    stages: Stages
    queries: int
    layers: Mapping[str, tuple[str, ...]]
    batch_size: int = 128


_cell = "cells.4"
# The last cell alone, what comes before being cached: a query then costs a few percent of a forward pass.
_LAST = MappingProxyType(
    {
        "nasnet_a": (
            f"{_cell}.before.norm",
            f"{_cell}.now.norm",
            f"{_cell}.separable.*.layers.3",
            f"{_cell}.separable.*.layers.7",
        ),
        "resnet18": ("stages.3.1.norm1", "stages.3.1.norm2"),
    }
)
_ALL = MappingProxyType(
    {
        "nasnet_a": ("*norm", "*.layers.3", "*.layers.7"),
        "resnet18": ("*norm1", "*norm2"),
    }
)

SCALES: Mapping[str, Scale] = MappingProxyType(
    {
        "smoke": Scale(
            64, 64, 64, 8, replace(PAPER, steps=6, observations=3, training=Training(steps=10)), 20, _LAST, 16
        ),
        "small": Scale(8_000, 3_000, 3_200, 256, replace(PAPER, steps=100, observations=5), 255, _LAST),
        # 500 tasks of K = 25 queries: 5% of T = 500.
        "paper": Scale(16_000, 3_200, 3_200, 256, replace(PAPER, steps=500, observations=25), 12_505, _ALL),
    }
)
"""Scales by name."""


def network(model: str, data: str, scale: str, images: Cifar10Split) -> nn.Module:
    """The network that `metricopt pretrain` left in METRICOPT_CACHE/MODEL_DATA, or the one that comes with the package.

    At scale smoke a quick one instead.

    Example:
        >>> network("nasnet_a", "nowhere", "small", Cifar10Split(*[Examples(torch.zeros(1), torch.zeros(1))] * 3))
        Traceback (most recent call last):
        metricopt.core.errors.DataError: there is no nasnet_a trained on nowhere ...
    """
    if scale == "smoke":
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived_seed(0, "table4", model, data))
            small = {"filters": 4} if model == "nasnet_a" else {"width": 4}
            net = MODELS[model](classes=1 + int(images.train.targets.max()), **small)
        few = images.train.rows(torch.arange(128))
        return pretrain(net, few, epochs=1, batch_size=32)
    own, shipped = (place / f"{model}_{data}" for place in (cache_folder(), SHIPPED))
    folder = shipped if (shipped / "network.json").exists() and not (own / "network.json").exists() else own
    try:
        return load_network(folder)
    except FileFormatError as error:
        raise DataError(
            f"there is no {model} trained on {data} ({error}); expected one in {folder}: make it by `metricopt "
            f"pretrain {model} --data {data} --out {folder}`, in half an hour on one core"
        ) from error


def problem(model: str, data: str, scale: str, seed: int) -> Problem:
    """A network on its images, with FiLM alone and the error rate to lower."""
    size, images = SCALES[scale], _images(data)
    draw = stream(seed, "table4", data)
    index = {
        "train": (images.train, torch.randperm(len(images.train), generator=draw)[: size.train]),
        "search": (images.validation, torch.randperm(len(images.validation), generator=draw)[: size.search]),
        "test": (images.test, torch.arange(min(size.test, len(images.test)))),
    }
    parts = {name: _rows(*pair) for name, pair in index.items()}
    net = network(model, data, scale, images).to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    return Problem(
        f"{model}_{data}",
        net,
        FiLM(dim=size.dim, layers=size.layers[model]),
        cross_entropy,
        mcr(),
        **parts,
        accept=parts["search"],
        sampling="plain",
        batch_size=size.batch_size,
        notes=f"{model} on {data}: {size.train} training images, {size.search} validation images to query, "
        f"{len(parts['test'].targets)} test images; FiLM alone with d = {size.dim}, T = {size.stages.steps}",
        seed=seed,
    )


# Three problems of a seed share them, and turning bytes into normalised numbers takes seconds.
_images = functools.cache(image_set)


def _rows(data: Examples, index: torch.Tensor) -> Examples:
    return Examples(data.inputs[index].contiguous(memory_format=torch.channels_last), data.targets[index])
