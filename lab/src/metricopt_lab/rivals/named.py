"""The registry of rivals: what they share is a signature and an honest count of queries."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from metricopt.core.records import Outcome
from metricopt.core.registry import Registry
from metricopt.task.oracle import Oracle


class Rival(Protocol):
    """A search for phi that spends at most `queries` metric queries of the oracle."""

    def __call__(self, oracle: Oracle, *, queries: int, seed: int) -> Outcome:
        """What it found, and would have found with fewer queries."""
        ...


@dataclass(frozen=True)
class Baseline:
    """A registered rival.

    Attributes:
        name: Its name in the registry.
        run: `run(oracle, queries=..., seed=...)`.
        needs_labels: Whether it uses the targets of the metric's own data, so needs `labels_visible`.
        about: One line about it.
        version: To be bumped by hand with any change of its results; records name the version they were made by.
        thinks: Whether a suggestion takes long, because a model is fitted for it.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> BASELINES["pretrained"].run(Oracle(QuadraticTask(dim=3)), queries=10, seed=0).phi.tolist()
        [0.0, 0.0, 0.0]
    """

    name: str
    run: Rival
    needs_labels: bool
    about: str
    version: int = 1
    thinks: bool = False


BASELINES: Registry[Baseline] = Registry("baseline")
"""The rivals by name."""


def baseline(
    name: str, *, needs_labels: bool = False, version: int = 1, thinks: bool = False
) -> Callable[[Rival], Rival]:
    """Decorator that registers a rival under `name`; the first line of its docstring says what it is."""

    def register(rival: Rival) -> Rival:
        about = (inspect.getdoc(rival) or "").partition("\n")[0]
        BASELINES.add(name)(Baseline(name, rival, needs_labels, about, version, thinks))
        return rival

    return register
