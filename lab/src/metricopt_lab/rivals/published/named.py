"""The registry of published rivals: they need rows with labels, so a task that is supervised."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from metricopt.core.records import Outcome
from metricopt.core.registry import Registry
from metricopt.task.oracle import Oracle
from metricopt_lab.rivals.named import Baseline
from metricopt_lab.rivals.published.lesson import Pace


class PacedRival(Protocol):
    """A rival that trains, at a pace of its own where none is given."""

    def __call__(self, oracle: Oracle, *, queries: int, seed: int, pace: Pace | None = None) -> Outcome:
        """What it found, and would have found with fewer queries."""
        ...


@dataclass(frozen=True)
class Published(Baseline):
    """A registered rival whose pace can be chosen.

    Attributes:
        run: `run(oracle, queries=..., seed=..., pace=...)`.
    """

    run: PacedRival  # pyright: ignore[reportIncompatibleVariableOverride]

    def at(self, pace: Pace | None) -> Baseline:
        """The rival at a pace; at its own if there is none."""
        return replace(self, run=partial(self.run, pace=pace))


PUBLISHED: Registry[Published] = Registry("published rival")
"""The rivals by name."""


def rival_of(row: str) -> str:
    """The rival, or loss, of a table's row: those on weights have a suffix.

    Example:
        >>> rival_of("moew_weights")
        'moew'
    """
    return row.removesuffix("_weights")


def published(name: str, *, needs_labels: bool = False, version: int = 1) -> Callable[[PacedRival], PacedRival]:
    """Decorator that registers a rival under `name`; the first line of its docstring says what it is."""

    def register(rival: PacedRival) -> PacedRival:
        about = (inspect.getdoc(rival) or "").partition("\n")[0]
        PUBLISHED.add(name)(Published(name, rival, needs_labels, about, version))
        return rival

    return register
