"""Runs an experiment: cells measured before are kept, the others are shared out among processes."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path

import torch

from metricopt.core.errors import BudgetError
from metricopt.core.writing import write_text
from metricopt_lab.experiments.experiment import EXPERIMENTS, Cell, Record, Settings, chosen
from metricopt_lab.experiments.store import Store
from metricopt_lab.experiments.worker import begin_worker

Watch = Callable[[int, int, str], None]
"""Called with the number of cells done, the number of all, and the name of the last one."""

_POLL = 1.0


@dataclass(frozen=True)
class Run:
    """All records of an experiment and the text they make.

    Attributes:
        records: One for each cell, in the order of the cells.
        text: The table, also written to `table.md`.
        measured: How many of the records are new.
    """

    records: list[Record]
    text: str
    measured: int


def run(
    name: str,
    settings: Settings,
    out: Path,
    *,
    workers: int = 1,
    fresh: bool = False,
    watch: Watch | None = None,
) -> Run:
    """Measure what is missing of an experiment in `out`, then render all of it.

    Args:
        name: Name of the experiment.
        settings: Seeds, scale and data.
        out: Folder: records go to `cells/`, the text to `table.md`, plots beside it.
        workers: Processes, with one thread each; 1 measures in this one.
        fresh: Measure everything again.
        watch: Told about every cell done.

    Example:
        >>> run("table4", Settings(), Path("nowhere"))
        Traceback (most recent call last):
        metricopt.core.errors.UnknownNameError: there is no experiment named 'table4'; did you mean 'table3'?
    """
    experiment = EXPERIMENTS[name]()
    chosen([settings.scale], experiment.scales, kind="scale")
    if workers < 1:
        raise BudgetError(f"{workers} workers were asked for; expected at least 1")
    cells = experiment.cells(settings)
    store = Store(out / "cells")
    if fresh:
        for cell in cells:
            store.drop(cell.key)
    missing = [cell for cell in cells if cell.key not in store]
    failure = _measure(name, missing, out, workers, _Watcher(cells, store, watch))
    records = [store.read(cell.key) for cell in cells if cell.key in store]
    text = experiment.text(records) if records else ""
    write_text(out / "table.md", text)
    if records:
        experiment.draw(records, out)
    # What the other data gave is on disk by now: a data set that cannot be had costs its own rows only.
    if failure is not None:
        raise failure
    return Run(records, text, len(missing))


@dataclass(frozen=True)
class _Watcher:
    cells: Sequence[Cell]
    store: Store
    watch: Watch | None

    def look(self, last: str = "") -> None:
        """Tell how many cells are done: by their files, which processes share."""
        if self.watch is not None:
            self.watch(sum(cell.key in self.store for cell in self.cells), len(self.cells), last)


def _measure(name: str, missing: list[Cell], out: Path, workers: int, watcher: _Watcher) -> BaseException | None:
    """Measure the cells job by job; the first failure of a job, after all others have had their turn."""
    jobs = [list(group) for _, group in groupby(sorted(missing, key=lambda cell: cell.job), lambda cell: cell.job)]
    if workers == 1 or len(jobs) <= 1:
        return _one_by_one(name, jobs, out, watcher)
    # Forked processes would inherit locks of torch's threads.
    with ProcessPoolExecutor(min(workers, len(jobs)), get_context("spawn"), begin_worker) as pool:
        futures: set[Future[None]] = {pool.submit(_job, name, job, out) for job in jobs}
        waiting = futures
        while waiting:
            _, waiting = wait(waiting, timeout=_POLL)
            watcher.look()
        return next((error for error in (future.exception() for future in futures) if error is not None), None)


def _one_by_one(name: str, jobs: list[list[Cell]], out: Path, watcher: _Watcher) -> BaseException | None:
    failure: BaseException | None = None
    for job in jobs:
        try:
            with _one_thread():
                for cell in _measured(name, job, out):
                    watcher.look(cell.key)
        except Exception as error:
            failure = failure or error
    return failure


def _job(name: str, cells: list[Cell], out: Path) -> None:
    for _ in _measured(name, cells, out):
        pass


def _measured(name: str, cells: list[Cell], out: Path) -> Iterator[Cell]:
    """Write the record of each cell of one job as soon as there is one."""
    store = Store(out / "cells")
    for cell, record in zip(cells, EXPERIMENTS[name]().measure(cells), strict=True):
        store.write(cell.key, {"experiment": name, **record})
        yield cell


@contextmanager
def _one_thread() -> Iterator[None]:
    """The same arithmetic here as in a process of its own: sums depend on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
