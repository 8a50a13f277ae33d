"""Jobs in parallel processes, each of which reports while it works."""

import multiprocessing
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.context import SpawnProcess
from typing import Any, TypeVar

import torch

from metricopt.core.errors import MetricOptError

Job = TypeVar("Job")
News = TypeVar("News")

_PATIENCE = 2.0  # seconds between looks whether the processes still live
_END = "end of the jobs"


def in_processes(work: Callable[[Job], Iterable[News]], jobs: Sequence[Job], *, workers: int) -> Iterator[News]:
    """All that `work(job)` yields for every job, as it comes, with one thread a process.

    Args:
        work: What to do with a job; it has to be importable, for processes start afresh.
        jobs: The jobs, begun in this order.
        workers: How many processes.
    """
    context = multiprocessing.get_context("spawn")
    waiting, news = context.Queue(), context.Queue()
    count = max(1, min(workers, len(jobs)))
    for job in [*jobs, *[_END] * count]:
        waiting.put(job)
    with _one_thread_each():
        processes = [context.Process(target=_serve, args=(work, waiting, news), daemon=True) for _ in range(count)]
        for process in processes:
            process.start()
    try:
        yield from _reports(news, processes)
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _reports(news: Any, processes: list[SpawnProcess]) -> Iterator[Any]:
    """What the processes report until each has said that it is through."""
    through = 0
    while through < len(processes):
        try:
            kind, content = news.get(timeout=_PATIENCE)
        except queue.Empty:
            if any(process.exitcode not in (None, 0) for process in processes):
                raise MetricOptError(
                    "a worker process died (out of memory?); what it had finished is stored: run the same command "
                    "again to go on, perhaps with fewer workers"
                ) from None
            continue
        if kind == "error":
            raise MetricOptError(f"a worker process failed:\n{content}")
        if kind == "end":
            through += 1
        else:
            yield content


def _serve(work: Callable[[Any], Iterable[Any]], waiting: Any, news: Any) -> None:
    """Body of a process: jobs until there are no more."""
    begin_worker()
    try:
        while (job := waiting.get()) != _END:
            for content in work(job):
                news.put(("news", content))
    except Exception as error:
        news.put(("error", repr(error)))
    else:
        news.put(("end", None))


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Environment for processes started within, which read it when they import torch."""
    wanted = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "MKL_NUM_THREADS": "1"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def begin_worker() -> None:
    """One thread, no slow arithmetic next to zero, and an end as soon as the process that started it has ended.

    Workers of a command that was killed would otherwise go on for as long as their jobs take.
    """
    torch.set_num_threads(1)
    # Numbers next to zero, which a diverging value network is full of, are ten times slower than others.
    torch.set_flush_denormal(True)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
