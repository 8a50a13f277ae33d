"""The registry of published rivals: they need rows with labels, so a task that is supervised."""

import inspect
from collections.abc import Callable

from metricopt.core.registry import Registry
from metricopt_lab.rivals.named import Baseline, Rival

PUBLISHED: Registry[Baseline] = Registry("published rival")
"""The rivals by name."""


def published(name: str, *, needs_labels: bool = False, version: int = 1) -> Callable[[Rival], Rival]:
    """Decorator that registers a rival under `name`; the first line of its docstring says what it is."""

    def register(rival: Rival) -> Rival:
        about = (inspect.getdoc(rival) or "").partition("\n")[0]
        PUBLISHED.add(name)(Baseline(name, rival, needs_labels, about, version))
        return rival

    return register
