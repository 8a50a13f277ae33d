"""What a figure of the speed benchmark is."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from metricopt.core.registry import Registry
from metricopt_lab.speed.timing import Clock, interleaved, quartiles

Sense = Literal["at most", "at least"]


@dataclass(frozen=True)
class Effort:
    """How thoroughly to measure.

    Attributes:
        repeats: Rounds of an interleaved measurement.
        quick: Tiny sizes, to see that everything runs; the numbers then mean nothing.

    Example:
        >>> Effort().of(1000, 10), Effort(quick=True).of(1000, 10)
        (1000, 10)
    """

    repeats: int = 15
    quick: bool = False

    def of(self, size: Any, small: Any) -> Any:
        """`size`, or `small` if it has to be quick."""
        return small if self.quick else size


@dataclass(frozen=True)
class Label:
    """What a figure is about: see `Figure`."""

    name: str
    what: str
    target: float | None = None
    sense: Sense = "at most"
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """One measured number with its spread and what it should be.

    Attributes:
        name: Letter of the figure.
        what: What was measured.
        median: Median over the rounds.
        low: Lower quartile.
        high: Upper quartile.
        rounds: Number of rounds.
        target: Bound it should keep; None if there is none.
        sense: On which side of the bound it should be.
        note: How it was measured, where that is not obvious.

    Example:
        >>> Figure("a", "guided / plain", 1.1, 1.0, 1.2, 5, target=1.15).met
        True
    """

    name: str
    what: str
    median: float
    low: float
    high: float
    rounds: int
    target: float | None = None
    sense: Sense = "at most"
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None if there is none."""
        if self.target is None:
            return None
        return self.median <= self.target if self.sense == "at most" else self.median >= self.target


def ratio(
    label: Label,
    numerator: Callable[[], object],
    denominator: Callable[[], object],
    effort: Effort,
    *,
    each: int = 1,
    clock: Clock = time.process_time,
) -> Figure:
    """How many times as long one piece of work takes as another, measured in turn, round by round.

    Example:
        >>> label = Label("x", "much / little", target=1.0, sense="at least")
        >>> ratio(label, lambda: sum(range(20000)), lambda: None, Effort(repeats=3)).met
        True
    """
    work = {"numerator": numerator, "denominator": denominator}
    taken = interleaved(work, rounds=effort.repeats, each=effort.of(each, 1), clock=clock)
    median, low, high = quartiles(taken["numerator"] / np.maximum(taken["denominator"], 1e-9))
    return Figure(label.name, label.what, median, low, high, effort.repeats, label.target, label.sense, label.note)


Measure = Callable[[Effort], list[Figure]]
FIGURES: Registry[Measure] = Registry("figure")
"""Groups of figures by letter."""
