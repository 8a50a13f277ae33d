"""The sizes at which experiments on tables run, from seconds to the paper's own."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from metricopt.data.sampling import Sampling
from metricopt.metrics import Metric
from metricopt_lab.data import DATASETS
from metricopt_lab.problems import Problem, tabular

DATA: Mapping[str, str] = MappingProxyType({"a9a": "adult_a9a", "covtype2": "covtype2", "covtype7": "covtype7"})
"""Registered data set behind each short name."""


@dataclass(frozen=True)
class Rows:
    """At most so many rows of each part of a 70/10/20 split; all of them if None.

    Example:
        >>> Rows(train=2000).words
        'at most 2000 train rows'
    """

    train: int | None = None
    search: int | None = None
    accept: int | None = None
    test: int | None = None

    @property
    def words(self) -> str:
        """The limits in words."""
        parts = {"train": self.train, "search": self.search, "accept": self.accept, "test": self.test}
        limits = [f"{rows} {part}" for part, rows in parts.items() if rows is not None]
        return f"at most {', '.join(limits)} rows" if limits else "all rows"


ALL, TINY = Rows(), Rows(2_000, 500, 500, 1_000)
MIDDLE = Rows(60_000, 3_000, 6_000, 50_000)


@dataclass(frozen=True)
class Scale:
    """How much of each data set, how many metric queries, and which samplings.

    Attributes:
        rows: Limits by short name of the data set; a data set that is not named is left out.
        queries: Metric queries each method may spend.
        samplings: How mini-batches are drawn.

    Example:
        >>> SCALES["paper"].queries  # 500 tasks of 3 queries, and 5 for the ends of the paths
        1505
    """

    rows: Mapping[str, Rows]
    queries: int
    samplings: tuple[Sampling, ...]


BOTH: tuple[Sampling, ...] = ("balanced", "plain")
SCALES: Mapping[str, Scale] = MappingProxyType(
    {
        "smoke": Scale({"a9a": TINY}, 20, ("balanced",)),
        "small": Scale({"a9a": ALL, "covtype2": MIDDLE, "covtype7": MIDDLE}, 150, BOTH),
        "paper": Scale({"a9a": ALL, "covtype2": ALL, "covtype7": ALL}, 1505, BOTH),
    }
)
"""Scales by name."""


def problem_at(scale: str, data: str, metric: Metric, *, sampling: Sampling, seed: int) -> Problem:
    """The paper's problem on a data set, cut to a scale.

    Example:
        >>> from metricopt.metrics import f_beta
        >>> len(problem_at("smoke", "a9a", f_beta(), sampling="plain", seed=0).train)
        2000
    """
    rows = SCALES[scale].rows[data]
    return tabular(
        DATA[data],
        metric,
        seed=seed,
        sampling=sampling,
        train_rows=rows.train,
        search_rows=rows.search,
        accept_rows=rows.accept,
        test_rows=rows.test,
    )


def fingerprint(data: str) -> str:
    """sha256 of the contents of a data set.

    Example:
        >>> len(fingerprint("a9a"))
        64
    """
    return DATASETS[DATA[data]]().fingerprint
