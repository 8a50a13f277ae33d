"""The same paths from any number of processes: tasks in groups, each with random numbers of its own."""

import gc
import math
import mmap
import multiprocessing
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from metricopt.core.errors import MetricFailureWarning, MetricOptError
from metricopt.core.records import Trajectory, at_steps
from metricopt.core.seeding import stream
from metricopt.paper.collect import Spacing, checked_observations, observed_steps, walk
from metricopt.run.ledger import Query, QueryLedger
from metricopt.task.base import Task
from metricopt.task.finetuning import OptimizerFactory

TASKS_A_GROUP = 16


class Walked(NamedTuple):
    """What is known of one group of tasks besides its paths: losses, and the answers of a process that has asked."""

    loss: np.ndarray
    queries: list[Query] | None


Work = Callable[[int], Walked]


def collect_in_groups(
    task: Task,
    *,
    steps: int,
    observations: int,
    optimizer: Callable[[int], OptimizerFactory],
    start: Tensor,
    seed: int,
    workers: int = 1,
    spacing: Spacing = "even",
) -> Trajectory:
    """As `collect`, by one or more processes with one thread each; how many changes no bit of the result.

    Tasks are walked in groups of 16, each a population with a random stream of its own. Where the system cannot fork
    processes, or a device would not work in them, this one does all the work.

    Args:
        task: Its metric is asked by the processes unless it is costly or answers go through a journal.
        steps: T, finetuning steps of one task.
        observations: K, metric queries along one task.
        optimizer: From the number of a group to a factory of its optimizer, so that groups may differ in seed.
        start: First phi of each path, (tasks, dim).
        seed: Everything random depends on it alone.
        workers: Processes, this one among them.
        spacing: Of the observed steps, see `collect`.

    Example:
        >>> from functools import partial
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> sgd = lambda group: partial(torch.optim.SGD, lr=0.1)
        >>> options = dict(steps=10, observations=3, optimizer=sgd, start=torch.zeros(20, 4), seed=0)
        >>> alone = collect_in_groups(QuadraticTask(dim=4), **options)
        >>> torch.equal(alone.phi, collect_in_groups(QuadraticTask(dim=4), **options, workers=2).phi)
        True
    """
    checked_observations(steps, observations)
    task.prepare()
    starts = start.split(TASKS_A_GROUP)
    asks = task.asks_cheaply and task.ledger.journal is None
    if asks:
        task.ledger.charge(len(start) * observations, stage=task.stage)
    draw = stream(seed, "observed") if spacing == "random" else None
    observed = observed_steps(len(start), steps, observations, draw=draw)
    phi = _shared(len(start), steps, task.dim, dtype=start.dtype)

    def work(group: int) -> Walked:
        paths, seen = (part.split(TASKS_A_GROUP)[group] for part in (phi, observed))
        generator = stream(seed, "group", group)
        paths[:], loss = walk(task, starts[group], steps, optimizer=optimizer(group), generator=generator)
        queries = _asked(task, at_steps(paths, seen).flatten(0, 1)) if asks else None
        return Walked(loss.numpy(), queries)

    can_fork = task.forks and "fork" in multiprocessing.get_all_start_methods()
    workers = max(1, min(workers, len(starts))) if can_fork else 1
    with _one_thread():
        walked = list(_worked(work, len(starts), workers))
    costs = []
    for rows, group in zip(at_steps(phi, observed).split(TASKS_A_GROUP), walked, strict=True):
        points = rows.flatten(0, 1)
        costs.append(_entered(task, points, group.queries) if asks else task.observe(points))
    loss = torch.cat([torch.from_numpy(group.loss) for group in walked])
    return Trajectory(phi, loss, observed, torch.cat(costs).view(observed.shape), noise_std=task.noise_std())


def _shared(*shape: int, dtype: torch.dtype) -> Tensor:
    """Zeros in memory that forked processes write to as well: a pipe would have to carry every path."""
    memory = mmap.mmap(-1, math.prod(shape) * dtype.itemsize)
    return torch.frombuffer(memory, dtype=dtype).view(shape)


def _asked(task: Task, phi: Tensor) -> list[Query]:
    """Answers about phi, entered nowhere yet."""
    ledger = task.ledger
    task.ledger = QueryLedger()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MetricFailureWarning)  # said when they are entered
            for part in phi.split(task.members_at_once):
                sheet = task.ledger.sheet(part, stage=task.stage)
                task.ask(sheet)
                sheet.enter()
            return task.ledger.queries
    finally:
        task.ledger = ledger


def _entered(task: Task, phi: Tensor, queries: list[Query] | None) -> Tensor:
    sheet = task.ledger.sheet(phi, stage=task.stage)
    for member, query in enumerate(queries or ()):
        sheet.write(member, query)
        if query.failure:
            warnings.warn(query.failure, MetricFailureWarning, stacklevel=2)
    return task.penalised(sheet.enter())


def _worked(work: Work, groups: int, workers: int) -> Iterator[Walked]:
    """`work(group)` of all groups in order, by this process and `workers` - 1 forked ones in turn."""
    processes: list[BaseProcess] = []
    receivers: list[Connection] = []
    try:
        for turn in range(1, workers):
            # Forked, not spawned: nothing of a task has to be pickled, and activations it has cached are shared.
            context = multiprocessing.get_context("fork")
            receiver, sender = context.Pipe(duplex=False)
            receivers.append(receiver)
            served = range(turn, groups, workers)
            process = context.Process(target=_serve, args=(work, served, sender, receivers), daemon=True)
            process.start()
            processes.append(process)
            sender.close()  # the child has its own; with ours open its death would go unnoticed
        for group in range(groups):
            turn = group % workers
            yield _received(receivers[turn - 1], group) if turn else work(group)
    finally:
        for receiver in receivers:
            receiver.close()
        for process in processes:
            process.terminate()
            process.join()


def _received(receiver: Connection, group: int) -> Walked:
    try:
        found = receiver.recv()
    except EOFError:
        raise MetricOptError(
            f"a worker process died in group {group} of the tasks (out of memory?); try again with fewer workers"
        ) from None
    if isinstance(found, str):
        raise MetricOptError(f"a worker process failed in group {group} of the tasks: {found}")
    return Walked(*found)


def _serve(work: Work, groups: range, sender: Connection, receivers: list[Connection]) -> None:
    """Body of a forked process."""
    for receiver in receivers:
        receiver.close()  # the first process reads; when it is gone, writing has to fail
    torch.set_num_threads(1)
    gc.disable()  # going through everything inherited would copy it, page by page
    for group in groups:
        try:
            sender.send(tuple(work(group)))
        except Exception as error:
            sender.send(f"{type(error).__name__}: {error}")
            return


@contextmanager
def _one_thread() -> Iterator[None]:
    # Several threads would sum in another order than one: other last bits.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
