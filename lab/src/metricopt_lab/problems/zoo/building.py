"""A problem made of a pool of rows: split, disturbed where the variant says so, and a network trained on the rest."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from metricopt.core.seeding import stream
from metricopt.data.dataset import Examples
from metricopt.data.sampling import PerClass
from metricopt.losses import cross_entropy, fast_ap
from metricopt.metrics import Metric
from metricopt_lab.data.download import cache_folder
from metricopt_lab.problems.pretrain import pretrain
from metricopt_lab.problems.zoo.networks import untrained
from metricopt_lab.problems.zoo.problem import UserProblem
from metricopt_lab.problems.zoo.sources import Pool


@dataclass(frozen=True)
class Variant:
    """What is done to a pool.

    Attributes:
        sizes: Rows of train, val and test; test rows fixed by the source are taken as they are.
        noisy: Share of the training labels replaced by a class at random.
        flipped: Share of the positive training labels turned negative.
        shift: Kind of group, codes of the training rows, codes of all others.
        pixel_noise: Standard deviation, in pixels from 0 to 1, of what is added to images of val and test.
        groups: Kind of group that the metric is told.
        epochs: Of pre-training.
        unseen: How many classes train, validate and test, if none is in two of them: then it is about retrieval, and
            the network gives embeddings.
    """

    sizes: tuple[int, int, int]
    noisy: float = 0.0
    flipped: float = 0.0
    shift: tuple[str, tuple[int, ...], tuple[int, ...]] | None = None
    pixel_noise: float = 0.0
    groups: str | None = None
    epochs: int = 5
    unseen: tuple[int, int, int] | None = None


EMBEDDED = 64  # dimensions of an embedding


def built(
    name: str, pool: Callable[[], Pool], metric: Metric, variant: Variant, *, labels_visible: bool, seed: int
) -> UserProblem:
    """The problem of that seed; its network is trained once and kept in the cache folder."""
    rows = pool()
    parts = _parts(rows, variant, seed)
    train = _examples(rows, parts[0], None, targets=_disturbed(rows, parts[0], variant, seed))
    retrieves = variant.unseen is not None
    net = untrained(train.inputs, EMBEDDED if retrieves else rows.classes, seed=seed)
    how: Any = {"loss": fast_ap, "lr": 1e-3, "sampling": PerClass(4)} if retrieves else {"lr": 0.01}
    pretrain(net, train, epochs=variant.epochs, batch_size=256, seed=seed, cache=cache_folder() / "networks", **how)
    val, test = (_examples(rows, part, variant.groups) for part in parts[1:])
    if variant.pixel_noise:
        val, test = (_with_noise(part, variant.pixel_noise, seed) for part in (val, test))
    loss = fast_ap if retrieves else cross_entropy
    return UserProblem(name, net, loss, metric, train, val, test, labels_visible, seed)


def _parts(pool: Pool, variant: Variant, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of train, val and test, disjoint, drawn at random."""
    order = torch.randperm(len(pool.target), generator=stream(seed, "split")).numpy()
    if variant.unseen is not None:
        return _parts_of_classes(pool, order, variant, seed)
    free = order if pool.test is None else order[~np.isin(order, pool.test)]
    inside, outside = free, free
    if variant.shift is not None:
        kind, here, there = variant.shift
        inside, outside = (free[np.isin(pool.groups[kind][free], codes)] for codes in (here, there))
    train = inside[: variant.sizes[0]]
    rest = outside[~np.isin(outside, train)]
    val = rest[: variant.sizes[1]]
    test = pool.test if pool.test is not None else rest[variant.sizes[1] : variant.sizes[1] + variant.sizes[2]]
    return torch.from_numpy(train), torch.from_numpy(val), torch.from_numpy(np.asarray(test))


def _parts_of_classes(pool: Pool, order: np.ndarray, variant: Variant, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of train, val and test, at most as many as the sizes say, of classes that no other part has."""
    assert variant.unseen is not None
    classes = torch.randperm(pool.classes, generator=stream(seed, "classes")).split(list(variant.unseen))
    target, rows = pool.target.numpy(), []
    for mine, most in zip(classes, variant.sizes, strict=True):
        rows.append(torch.from_numpy(order[np.isin(target[order], mine.numpy())][:most]))
    return rows[0], rows[1], rows[2]


def _examples(pool: Pool, rows: Tensor, groups: str | None, targets: Tensor | None = None) -> Examples:
    inputs = pool.inputs[rows]
    if inputs.dtype == torch.uint8:
        inputs = (inputs.float() / 255 - 0.5).contiguous(memory_format=torch.channels_last) * 4
    codes = None if groups is None else torch.from_numpy(pool.groups[groups])[rows]
    return Examples(inputs, pool.target[rows] if targets is None else targets, codes)


def _disturbed(pool: Pool, rows: Tensor, variant: Variant, seed: int) -> Tensor:
    draw, targets = stream(seed, "label noise"), pool.target[rows].clone()
    hit = torch.rand(len(rows), generator=draw)
    others = torch.randint(pool.classes, (len(rows),), generator=draw)
    targets = torch.where(hit < variant.noisy, others, targets)
    return torch.where((hit < variant.flipped) & (targets == 1), 0, targets)


def _with_noise(data: Examples, size: float, seed: int) -> Examples:
    noise = torch.randn(data.inputs.shape, generator=stream(seed, "pixel noise", len(data)))
    noisy = (data.inputs + 4 * size * noise).clamp(-2, 2).contiguous(memory_format=torch.channels_last)
    return Examples(noisy, data.targets, data.groups)
