"""What entries of the shelf are learnt on, and where else they are tried."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import torch

from metricopt.metrics import METRICS
from metricopt.search.transfer import CarriedValue
from metricopt_lab.problems.zoo import sources
from metricopt_lab.studies.transfer.pairs import SIZES, Setting, spruces
from metricopt_lab.studies.transfer.racing import taught

SEED = 1000
"""Of all that teaches: no search that an entry is tried in has its rows or its network."""


@dataclass(frozen=True)
class Source:
    """What an entry is learnt on.

    Attributes:
        about: Data, network, metric and adapter in words.
        setting: The search that teaches.
        elsewhere: Names of settings that it is tried in.
    """

    about: str
    setting: Setting
    elsewhere: tuple[str, ...]


_income = Setting(sources.adult, METRICS["aucpr"], flipped=0.3)
_cover = Setting(spruces, METRICS["aucpr"], areas=(0, 2))

ELSEWHERE: Mapping[str, Setting] = MappingProxyType(
    {
        "incomes_aucpr": replace(_income, hidden=(64, 64)),
        "forests_aucpr": replace(_cover, hidden=(64, 64)),
        "incomes_f1": replace(_income, hidden=(64, 64), metric=METRICS["f1"]),
        "forests_f1": replace(_cover, hidden=(64, 64), metric=METRICS["f1"]),
    }
)
"""Where entries are tried: other rows and another network of the same subject, and another subject."""

_WORDS = "network: an MLP of 100-30-10 units; adapter: FiLM of 32 and the output affine; labels hidden"

SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        "ranking_of_incomes": Source(
            f"metric: AUCPR of two classes; data: UCI Adult, 30% of the positive training labels turned; {_WORDS}",
            _income,
            ("incomes_aucpr", "forests_aucpr"),
        ),
        "ranking_of_forests": Source(
            f"metric: AUCPR of two classes; data: CoverType, trained in area 0 and used in area 2; {_WORDS}",
            _cover,
            ("forests_aucpr", "incomes_aucpr"),
        ),
        "f1_of_incomes": Source(
            f"metric: F1; data: UCI Adult, 30% of the positive training labels turned; {_WORDS}",
            replace(_income, metric=METRICS["f1"]),
            ("incomes_f1", "forests_f1"),
        ),
    }
)
"""What may come to the shelf, by name."""


@functools.cache
def learnt(name: str, scale: str) -> CarriedValue:
    """The value function of a source, of statistics alone: nobody else has its rows.

    Example:
        >>> learnt("ranking_of_incomes", "smoke").kind
        'statistics'
    """
    value = taught(SOURCES[name].setting.build(scale, SEED), queries=SIZES[scale].queries, seed=SEED)
    return replace(value, outputs=torch.zeros(0, 0, 0).half(), about={"source": SOURCES[name].about}).only("statistics")
