"""Where the time of a whole run goes now."""

import cProfile
import pstats
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import metricopt
from metricopt.api.propose import propose
from metricopt.core.errors import FlatValueWarning
from metricopt.metrics import f_beta
from metricopt.paper.stages import finetune, learn_value_function
from metricopt.task.oracle import Oracle
from metricopt_lab.speed.figures import Effort
from metricopt_lab.speed.problems import tabular_task

_HOME = str(Path(metricopt.__file__).parent)


def profiled(effort: Effort) -> list[dict[str, Any]]:
    """Shares of the time of two runs by function of the library, all that it calls included, the largest first.

    Example:
        >>> rows = profiled(Effort(quick=True))
        >>> sorted({row["run"] for row in rows}), any("search/" in row["function"] for row in rows)
        (['default search, 150 queries', 'two stages, 600 queries'], True)
    """
    sizes = effort.of((34_189, 4_884), (200, 60))
    task = tabular_task(train=sizes[0], search=sizes[1], metric=f_beta())
    other = tabular_task(train=sizes[0], search=sizes[1], metric=f_beta())
    queries = effort.of((150, 600), (10, 100))

    def stages() -> None:
        finetune(other, learn_value_function(Oracle(other), queries=queries[1]).value)

    return [
        *_shares("default search, 150 queries", lambda: propose(Oracle(task), queries=queries[0])),
        *_shares("two stages, 600 queries", stages),
    ]


def _shares(run: str, work: Callable[[], object], *, most: int = 16) -> list[dict[str, Any]]:
    profiler = cProfile.Profile()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatValueWarning)  # on random data a value function may well be flat
        profiler.runcall(work)
    stats: dict[Any, Any] = pstats.Stats(profiler).stats  # pyright: ignore[reportAttributeAccessIssue]
    total = max(entry[3] for entry in stats.values())
    spent = {
        _name(function): (entry[3], entry[0])
        for function, entry in stats.items()
        if function[0].startswith(_HOME) and not function[2].startswith("<")
    }
    largest = sorted(spent.items(), key=lambda item: -item[1][0])[:most]
    rows = [
        {"run": run, "function": name, "share": seconds / total, "calls": calls} for name, (seconds, calls) in largest
    ]
    return [*rows, {"run": run, "function": "all", "share": 1.0, "seconds": total}]


def _name(function: tuple[str, int, str]) -> str:
    return f"{Path(function[0]).relative_to(_HOME).with_suffix('')}: {function[2]}"
