"""What an experiment is: cells, a function that measures one, and the text that the records make."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from metricopt_lab.cells.cell import Cell

Record = dict[str, Any]
"""What was measured for one cell, as plain data for JSON."""

AnyCell = TypeVar("AnyCell", bound=Cell)
Ground = TypeVar("Ground")


class Experiment(ABC, Generic[AnyCell, Ground]):
    """Cells, a way to measure each, and a text about the records; it travels to worker processes by pickling.

    Example:
        >>> from metricopt_lab.cells import ScaledCell
        >>> class Squares(Experiment[ScaledCell, int]):
        ...     '''Squares of seeds.'''
        ...     name = "squares"
        ...     def cells(self): return [ScaledCell("small", "none", "plain", 3, "square", "by_hand")]
        ...     def ground(self, first): return first.seed
        ...     def measure(self, ground, cell): return {"square": ground**2}
        ...     def version_of(self, method): return 1
        ...     def text(self, records): return str(records[0]["square"])
        >>> squares = Squares()
        >>> squares.about, squares.measure(squares.ground(squares.cells()[0]), squares.cells()[0])
        ('Squares of seeds.', {'square': 9})
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """What its files are called."""

    @abstractmethod
    def cells(self) -> list[AnyCell]:
        """All that is to be measured, jobs that matter most first."""

    @abstractmethod
    def ground(self, first: AnyCell) -> Ground:
        """What all cells of the job of `first` stand on: a problem with its network, and what is derived from it."""

    @abstractmethod
    def measure(self, ground: Ground, cell: AnyCell) -> Record:
        """The figures of one cell."""

    @abstractmethod
    def version_of(self, method: str) -> int:
        """The present version of a method; records of another one are stale."""

    @abstractmethod
    def text(self, records: Sequence[Record]) -> str:
        """The records as Markdown that reads well as it is."""

    def present_version(self, record: Record) -> int:
        """By which version a record would be made now."""
        return self.version_of(record["method"])

    def made_by(self, cell: AnyCell) -> Record:
        """What a record must say of how it was made to be that of this cell at present."""
        return {"version": self.version_of(cell.method)}

    def shown(self, records: Mapping[str, Record]) -> list[Record]:
        """Of all records by key those that the text is about, in its order; by default those of the cells."""
        return [records[cell.key] for cell in self.cells() if cell.key in records]

    def draw(self, records: Sequence[Record], folder: Path) -> None:
        """Plots of the records as files in a folder; none unless an experiment has some."""

    @property
    def pictures(self) -> tuple[str, ...]:
        """Names of the files that a page shows of what `draw` drew."""
        return (f"{self.name}.png",)

    @property
    def about(self) -> str:
        """One line about it."""
        return inspect.getdoc(type(self)).partition("\n")[0]  # pyright: ignore[reportOptionalMemberAccess]
