"""Running the benchmark: cells in groups of one problem and seed, groups in parallel processes."""

import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from metricopt.core.errors import MetricOptError
from metricopt_lab.experiments.quality.cell import cell_rows
from metricopt_lab.experiments.quality.cells import Cell, CellStore, fingerprint
from metricopt_lab.experiments.quality.judge import Judge
from metricopt_lab.experiments.quality.methods import methods_of
from metricopt_lab.experiments.quality.settings import Settings, chosen
from metricopt_lab.experiments.quality.workers import in_processes
from metricopt_lab.problems import PROBLEMS

Watch = Callable[[int, int, str], None]
"""Called with the number of cells done, the number of all to be computed, and a few words about the last one."""


@dataclass(frozen=True)
class Group:
    """Cells that share a problem, which is loaded and pre-trained once for all of them.

    Attributes:
        problem: Its name.
        seed: The seed.
        dim: Size of FiLM's part of phi.
        missing: Fingerprint of each cell that is not there yet, by its method. Taken before the work begins: code
            that is edited meanwhile is not the code that runs.
    """

    problem: str
    seed: int
    dim: int
    missing: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Done:
    """News from a worker: a finished cell, or one that failed."""

    cell: Cell
    seconds: float
    failure: str = ""


def run_bench(settings: Settings, out: Path, *, workers: int = 2, watch: Watch | None = None) -> list[str]:
    """Compute all cells that are missing or stale; returns the failures, one text each.

    Args:
        settings: What to run.
        out: Folder of the results.
        workers: Processes, with one thread each.
        watch: Told about every cell done.
    """
    groups = missing_groups(settings, CellStore(out))
    total, failures = sum(len(group.missing) for group in groups), []
    work = partial(run_group, settings=settings, out=out)
    for count, news in enumerate(in_processes(work, groups, workers=workers), 1):
        label = f"{news.cell.problem} {news.cell.method} seed {news.cell.seed}"
        if news.failure:
            failures.append(f"{label}: {news.failure}")
        if watch is not None:
            watch(count, total, f"{label} {'FAILED' if news.failure else f'{news.seconds:.1f} s'}")
    return failures


def missing_groups(settings: Settings, store: CellStore) -> list[Group]:
    """Groups with cells to compute, the first seed of every problem before the second of any."""
    problems = chosen(settings.problems, list(PROBLEMS), "problem")
    methods = methods_of(settings)
    groups = []
    for dim, seed, problem in product(settings.dims, range(settings.seeds), problems):
        prints = {method.name: fingerprint(settings, method, dim) for method in methods}
        missing = {
            name: facts for name, facts in prints.items() if not store.fresh(Cell(problem, name, seed, dim), facts)
        }
        if missing:
            groups.append(Group(problem, seed, dim, missing))
    return groups


def run_group(group: Group, settings: Settings, out: Path) -> Iterator[Done]:
    """Compute and store the missing cells of a group, one after the other."""
    began = _clocks()
    try:
        spec = PROBLEMS[group.problem]
        problem = spec.build(seed=group.seed, cache=out / "theta", dim=group.dim)
        judge = Judge(problem, film_dim=group.dim, resamples=settings.resamples)
    except MetricOptError as error:
        yield from (Done(_cell(group, name), 0.0, str(error)) for name in group.missing)
        return
    for method in [one for one in methods_of(settings) if one.name in group.missing]:
        cell = _cell(group, method.name)
        try:
            rows = cell_rows(method, judge, budgets=settings.queries, seed=group.seed, kind=spec.kind)
        except Exception as error:
            # One method must not take the others' hours with it; its cell stays missing and is tried again.
            yield Done(cell, 0.0, "".join(traceback.format_exception(error)))
        else:
            # The first cell also bears the time for the problem itself, so that the sum is all there was.
            wall, cpu = (now - before for now, before in zip(_clocks(), began, strict=True))
            CellStore(out).save(cell, group.missing[method.name], rows, seconds=wall, cpu_seconds=cpu)
            yield Done(cell, wall)
        began = _clocks()


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _cell(group: Group, method: str) -> Cell:
    return Cell(group.problem, method, group.seed, group.dim)
