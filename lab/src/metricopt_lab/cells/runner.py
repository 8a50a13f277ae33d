"""Runs an experiment: records of the present are kept, the other cells are shared out among processes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from metricopt.core.errors import BudgetError
from metricopt.core.writing import write_text
from metricopt_lab.cells.cell import Cell
from metricopt_lab.cells.experiment import Experiment, Record
from metricopt_lab.cells.measuring import Failure, measured
from metricopt_lab.cells.settings import chosen
from metricopt_lab.cells.store import Store
from metricopt_lab.cells.versions import origin
from metricopt_lab.cells.workers import in_processes

Watch = Callable[[int, int, str], None]
"""Called with the number of cells measured, the number of all to be measured, and a few words about the last one."""


@dataclass(frozen=True)
class Run:
    """The records of an experiment and the text they make.

    Attributes:
        records: Those that the text is about, in its order.
        text: The table, also written to a file.
        measured: How many of the cells were measured now.
        failures: Cells that could not be measured; the next run tries them again.
    """

    records: list[Record]
    text: str
    measured: int = 0
    failures: tuple[Failure, ...] = ()


def run(
    experiment: Experiment[Any, Any],
    out: Path,
    *,
    workers: int = 1,
    fresh: bool = False,
    methods: Sequence[str] = (),
    watch: Watch | None = None,
) -> Run:
    """Measure what is missing or stale of an experiment in `out`, then render what is there.

    Args:
        experiment: With its settings.
        out: Folder: records go to `NAME.jsonl`, the text to `NAME.md`, plots beside it.
        workers: Processes, with one thread each; 1 measures in this one.
        fresh: Measure everything again.
        methods: Measure these only, and leave the others as they are; all by default.
        watch: Told about every cell measured.
    """
    if workers < 1:
        raise BudgetError(f"{workers} workers were asked for; expected at least 1")
    store = Store(out / f"{experiment.name}.jsonl")
    cells = experiment.cells()
    wanted = chosen(methods, list(dict.fromkeys(cell.method for cell in cells)), "method")
    missing = [cell for cell in cells if cell.method in wanted and (fresh or not present(experiment, cell, store))]
    failures: list[Failure] = []
    try:
        for count, news in enumerate(_measured(experiment, missing, workers), 1):
            if isinstance(news, Failure):
                failures.append(news)
            else:
                store.append(news)
            if watch is not None:
                watch(count, len(missing), str(news) if isinstance(news, Failure) else news["key"])
    finally:
        if missing:
            store.sort()
    # What could be measured is rendered, too, if something could not: data that cannot be had cost their own rows only.
    shown = render(experiment, out)
    return Run(shown.records, shown.text, len(missing) - len(failures), tuple(failures))


def render(experiment: Experiment[Any, Any], out: Path) -> Run:
    """The text and the plots of the records that are there; nothing is written if there are none."""
    records = experiment.shown(Store(out / f"{experiment.name}.jsonl"))
    if not records:
        return Run([], "")
    text = rendered(experiment, records)
    write_text(out / f"{experiment.name}.md", text)
    experiment.draw(records, out)
    return Run(records, text)


def rendered(experiment: Experiment[Any, Any], records: Sequence[Record]) -> str:
    """The text of an experiment, with the origin of its records below the heading."""
    heading, _, rest = experiment.text(records).partition("\n")
    return f"{heading}\n\n{origin(records, experiment.present_version)}\n{rest}"


def present(experiment: Experiment[Any, Any], cell: Cell, store: Store) -> bool:
    """Whether the store has a record of the cell that was made as it would be made now."""
    wanted = experiment.made_by(cell)
    return cell.key in store and all(store[cell.key].get(name) == value for name, value in wanted.items())


def _measured(experiment: Experiment[Any, Any], missing: Sequence[Cell], workers: int) -> Iterator[Record | Failure]:
    jobs: dict[str, list[Cell]] = {}
    for cell in missing:
        jobs.setdefault(cell.job, []).append(cell)
    if workers > 1 and len(jobs) > 1:
        yield from in_processes(partial(measured, experiment), list(jobs.values()), workers=workers)
        return
    for job in jobs.values():
        with _one_thread():
            yield from measured(experiment, job)


@contextmanager
def _one_thread() -> Iterator[None]:
    """The same arithmetic here as in a process of its own: sums depend on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
