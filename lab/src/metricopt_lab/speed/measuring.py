"""Groups of figures measured one after the other in this process, each a record of its own."""

import gc
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from metricopt_lab.cells import Record, chosen
from metricopt_lab.cells.provenance import provenance
from metricopt_lab.speed.figures import FIGURES, Effort
from metricopt_lab.speed.profile import profiled

PROFILE = "profile"
"""Key of the record of where the time goes."""


def measure_speed(
    names: Sequence[str], effort: Effort, *, watch: Callable[[int, int, str], None] | None = None
) -> list[Record]:
    """Records of the groups that are named; of all, and of where the time goes, if none is."""
    groups = chosen(names, sorted(FIGURES), "figure")
    keys = groups if names else [*groups, PROFILE]
    records = []
    for count, key in enumerate(keys):
        if watch is not None:
            watch(count, len(keys), key)
        gc.collect()  # a process that still holds the last figure's data is slower to fork
        records.append(_record(key, effort))
    return records


def _record(key: str, effort: Effort) -> Record:
    measured: dict[str, Any] = {}
    if key == PROFILE:
        measured["shares"] = profiled(effort)
    else:
        measured["figures"] = [{**asdict(figure), "met": figure.met} for figure in FIGURES[key](effort)]
    versions = {**provenance(), "rounds": effort.repeats, "quick": effort.quick}
    return {"key": key, **measured, "versions": versions}
