"""Seven pairs of searches, each a first one that teaches and a second one that is to need fewer queries."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import torch

from metricopt.adapters import FiLM, OutputAffine
from metricopt.core.seeding import derived_seed, stream
from metricopt.data.dataset import Examples
from metricopt.losses import cross_entropy
from metricopt.metrics import METRICS, Metric
from metricopt_lab.data.download import cache_folder
from metricopt_lab.networks import TabularMLP
from metricopt_lab.problems import Problem
from metricopt_lab.problems.pretrain import pretrain
from metricopt_lab.problems.zoo import sources
from metricopt_lab.problems.zoo.metrics import cohen_kappa
from metricopt_lab.problems.zoo.sources import Pool


@dataclass(frozen=True)
class Size:
    """Rows of each part, epochs of pre-training, and queries.

    Example:
        >>> SIZES["small"].queries
        150
    """

    train: int
    search: int
    test: int
    epochs: int
    queries: int


SIZES: Mapping[str, Size] = MappingProxyType(
    {
        "smoke": Size(1_000, 300, 500, 1, 20),
        "small": Size(20_000, 3_000, 20_000, 4, 150),
        "paper": Size(40_000, 4_000, 40_000, 5, 300),
    }
)
"""Scales by name."""


@dataclass(frozen=True)
class Setting:
    """One search: rows, network and metric.

    Attributes:
        pool: All rows.
        metric: Makes the metric.
        hidden: Units of the network.
        areas: Groups of CoverType that train it and in which it is used; all if None.
        flipped: Share of the positive training labels turned negative.
    """

    pool: Callable[[], Pool]
    metric: Callable[[], Metric]
    hidden: tuple[int, ...] = (100, 30, 10)
    areas: tuple[int, int] | None = None
    flipped: float = 0.0

    def build(self, scale: str, seed: int) -> Problem:
        """The problem of a scale and seed; its network is trained once and kept in the cache folder."""
        size, pool = SIZES[scale], self.pool()
        parts = self._parts(pool, size, seed)
        targets = pool.target[parts[0]].clone()
        flip = torch.rand(len(targets), generator=stream(seed, "transfer", "labels")) < self.flipped
        train = Examples(pool.inputs[parts[0]], torch.where(flip & (targets == 1), 0, targets))
        search, test = (Examples(pool.inputs[part], pool.target[part]) for part in parts[1:])
        outputs = 1 if pool.classes == 2 else pool.classes
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived_seed(seed, "transfer", "initial weights"))
            net = TabularMLP(train.inputs.shape[1], outputs=outputs, hidden=self.hidden)
        pretrain(net, train, epochs=size.epochs, batch_size=256, seed=seed, cache=cache_folder() / "networks")
        adapter, metric = FiLM(dim=32) + OutputAffine(), self.metric()
        return Problem(
            "transfer", net, adapter, cross_entropy, metric, train, search, search, test, sampling="plain",
            batch_size=256, notes=f"{len(train)} rows train an MLP of {self.hidden}, {len(search)} are queried, "
            f"{len(test)} test; FiLM of 32 and the output affine; labels hidden", seed=seed,
        )  # fmt: skip

    def _parts(self, pool: Pool, size: Size, seed: int) -> list[torch.Tensor]:
        """Rows of train, search and test, drawn at random, in no two of them."""
        order = torch.randperm(len(pool.target), generator=stream(seed, "transfer", "split")).numpy()
        inside = outside = order
        if self.areas is not None:
            area = pool.groups["wilderness"][order]
            inside, outside = (order[area == each] for each in self.areas)
        train = inside[: size.train]
        rest = outside[~np.isin(outside, train)]
        cuts = (train, rest[: size.search], rest[size.search : size.search + size.test])
        return [torch.from_numpy(np.ascontiguousarray(cut)) for cut in cuts]


@dataclass(frozen=True)
class Pair:
    """A search that teaches, a search that learns, and in what they differ.

    Example:
        >>> PAIRS["metric"].about
        'other metric, same model and rows: macro F1, then kappa'
    """

    about: str
    first: Setting
    second: Setting


def spruces() -> Pool:
    """CoverType with two classes: the second against the rest, as in the paper."""
    pool = sources.covtype()
    return replace(pool, target=(pool.target == 1).long(), classes=2)


def kappa7() -> Metric:
    """Cohen's kappa of seven classes."""
    return cohen_kappa(7)


_forest = Setting(sources.covtype, METRICS["mcr"], areas=(0, 2))
_income = Setting(sources.adult, METRICS["aucpr"], flipped=0.3)
_sure = replace(_income, metric=METRICS["f1"])

PAIRS: Mapping[str, Pair] = MappingProxyType(
    {
        "network": Pair("other network, same rows: 100-30-10 units, then 64-64", _forest,
                        replace(_forest, hidden=(64, 64))),
        "network_ranking": Pair("other network, same rows, AUCPR of two classes: 100-30-10 units, then 64-64", _income,
                                replace(_income, hidden=(64, 64))),
        "metric": Pair("other metric, same model and rows: macro F1, then kappa",
                       replace(_forest, metric=METRICS["macro_f1"]), replace(_forest, metric=kappa7)),
        "shift": Pair("same model used elsewhere: area 2, then area 3", _forest, replace(_forest, areas=(0, 3))),
        "data": Pair("other data of the same classes, another network trained on them: areas 0 to 2, then 2 to 0",
                     _forest, replace(_forest, areas=(2, 0))),
        "subject": Pair("other subject, F1 of two classes: census incomes, then forests", _sure,
                        Setting(spruces, METRICS["f1"], areas=(0, 2))),
        "subject_ranking": Pair("other subject, AUCPR of two classes: census incomes, then forests", _income,
                                Setting(spruces, METRICS["aucpr"], areas=(0, 2))),
    }
)  # fmt: skip
"""The pairs by name."""
