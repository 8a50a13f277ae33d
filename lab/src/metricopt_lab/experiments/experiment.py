"""What an experiment is: cells to be measured, each giving one record, and the text that the records make."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from metricopt.core.errors import BudgetError, UnknownNameError
from metricopt.core.registry import Registry
from metricopt.data.dataset import Sampling

Record = dict[str, Any]
"""What was measured for one cell, as plain data for JSON."""


@dataclass(frozen=True)
class Settings:
    """What a user asks of an experiment.

    Attributes:
        seeds: How many seeds, 0 .. seeds - 1.
        scale: One of the experiment's scales.
        data: Some of the experiment's data sets; all of those the scale has by default.

    Example:
        >>> Settings(seeds=2).scale
        'small'
    """

    seeds: int = 5
    scale: str = "small"
    data: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise BudgetError(f"{self.seeds} seeds were asked for; expected at least 1")


@dataclass(frozen=True)
class Cell:
    """One thing to be measured; cells that differ in metric and method only share a pre-trained network.

    Example:
        >>> Cell("small", "a9a", "plain", seed=0, metric="f1", method="cma_es").key
        'small-a9a-plain-seed0-f1-cma_es'
    """

    scale: str
    data: str
    sampling: Sampling
    seed: int
    metric: str
    method: str

    @property
    def key(self) -> str:
        """Name of its record."""
        return f"{self.job}-{self.metric}-{self.method}"

    @property
    def job(self) -> str:
        """Name of the work that all cells with the same network share."""
        return f"{self.scale}-{self.data}-{self.sampling}-seed{self.seed}"


class Experiment(ABC):
    """Cells, a way to measure them, and a text about the records.

    Attributes:
        scales: Names of the sizes it can be run at, from seconds to the paper's.
        needs_cifar10: Whether it works on CIFAR-10, which not everybody has.

    Example:
        >>> class Nothing(Experiment):
        ...     '''Measures nothing at all.'''
        ...     scales = ("small",)
        ...     def cells(self, settings): return []
        ...     def measure(self, cells): return iter(())
        ...     def text(self, records): return "nothing"
        >>> Nothing().about
        'Measures nothing at all.'
    """

    scales: ClassVar[tuple[str, ...]]
    needs_cifar10: ClassVar[bool] = False

    @abstractmethod
    def cells(self, settings: Settings) -> list[Cell]:
        """All that is to be measured."""

    @abstractmethod
    def measure(self, cells: Sequence[Cell]) -> Iterator[Record]:
        """A record for each of the cells, which are of one job, in their order."""

    @abstractmethod
    def text(self, records: Sequence[Record]) -> str:
        """The records as Markdown that reads well as it is."""

    def draw(self, records: Sequence[Record], folder: Path) -> None:  # noqa: B027
        """Plots of the records as files in a folder; none unless an experiment has some."""

    @property
    def about(self) -> str:
        """One line about it."""
        return inspect.getdoc(type(self)).partition("\n")[0]  # pyright: ignore[reportOptionalMemberAccess]


EXPERIMENTS: Registry[type[Experiment]] = Registry("experiment")
"""The experiments by name."""


def every_method(settings: Settings, network: str, metric: str, methods: Sequence[str]) -> list[Cell]:
    """A cell for each of the methods and each seed, by one metric of one plainly trained network.

    Example:
        >>> [cell.key for cell in every_method(Settings(seeds=1, scale="smoke"), "resnet32", "mcr", ["ce"])]
        ['smoke-resnet32-plain-seed0-mcr-ce']
    """
    return [
        Cell(settings.scale, network, "plain", seed, metric, method)
        for seed in range(settings.seeds)
        for method in methods
    ]


def chosen(names: Sequence[str], known: Sequence[str], *, kind: str) -> tuple[str, ...]:
    """The names asked for, all known ones if none are; UnknownNameError for one that is not known.

    Example:
        >>> chosen(["a9a"], ["a9a", "covtype2"], kind="data set")
        ('a9a',)
        >>> chosen(["a9"], ["a9a", "covtype2"], kind="data set")
        Traceback (most recent call last):
        metricopt.core.errors.UnknownNameError: there is no data set named 'a9' here; known: a9a, covtype2
    """
    for name in names:
        if name not in known:
            raise UnknownNameError(f"there is no {kind} named {name!r} here; known: {', '.join(known)}")
    return tuple(names or known)
