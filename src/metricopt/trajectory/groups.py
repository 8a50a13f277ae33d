"""The same paths from any number of processes: tasks in groups, each with random numbers of its own."""

import gc
import multiprocessing
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from metricopt.errors import MetricFailureWarning, MetricOptError
from metricopt.ledger import Query, QueryLedger
from metricopt.records import Trajectory
from metricopt.seeding import stream
from metricopt.task import Task
from metricopt.trajectory.collect import OptimizerFactory, checked_observations, random_steps, walk

TASKS_A_GROUP = 16


class Walked(NamedTuple):
    """Paths of one group of tasks, and the answers about them if the process that walked has asked."""

    phi: np.ndarray
    loss: np.ndarray
    observed_steps: np.ndarray
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
        workers: Processes.

    Example:
        >>> from functools import partial
        >>> from metricopt.tasks.synthetic import QuadraticTask
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

    def work(group: int) -> Walked:
        generator = stream(seed, "group", group)
        phi, loss = walk(task, starts[group], steps, optimizer=optimizer(group), generator=generator)
        observed = random_steps(len(phi), steps, observations, generator)
        index = observed.unsqueeze(-1).expand(-1, -1, task.dim)
        queries = _asked(task, torch.gather(phi, 1, index).flatten(0, 1)) if asks else None
        return Walked(phi.numpy(), loss.numpy(), observed.numpy(), queries)

    groups = len(starts)
    can_fork = task.forks and "fork" in multiprocessing.get_all_start_methods()
    source = _forked(work, groups, workers) if workers > 1 and groups > 1 and can_fork else map(work, range(groups))
    with _one_thread():
        return _joined(task, list(source), asks=asks)


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


def _joined(task: Task, groups: list[Walked], *, asks: bool) -> Trajectory:
    columns = [torch.cat([torch.from_numpy(group[i]) for group in groups]) for i in range(3)]
    phi, loss, observed = columns
    costs = []
    for group in groups:
        index = torch.from_numpy(group.observed_steps).unsqueeze(-1).expand(-1, -1, task.dim)
        rows = torch.gather(torch.from_numpy(group.phi), 1, index).flatten(0, 1)
        costs.append(_entered(task, rows, group.queries) if asks else task.observe(rows))
    return Trajectory(phi, loss, observed, torch.cat(costs).reshape(observed.shape), noise_std=task.noise_std())


def _entered(task: Task, phi: Tensor, queries: list[Query] | None) -> Tensor:
    sheet = task.ledger.sheet(phi, stage=task.stage)
    for member, query in enumerate(queries or ()):
        sheet.write(member, query)
        if query.failure:
            warnings.warn(query.failure, MetricFailureWarning, stacklevel=2)
    return task.penalised(sheet.enter())


def _forked(work: Work, groups: int, workers: int) -> Iterator[Walked]:
    """`work(group)` of all groups in order, worker w doing every `workers`-th one from w on."""
    # Forked, not spawned: nothing of a task has to be pickled, and activations it has cached are shared.
    context = multiprocessing.get_context("fork")
    workers = min(workers, groups)
    pipes = [context.Pipe(duplex=False) for _ in range(workers)]
    processes = [
        context.Process(target=_serve, args=(work, range(w, groups, workers), pipes[w][1]), daemon=True)
        for w in range(workers)
    ]
    for process, (_, sender) in zip(processes, pipes, strict=True):
        process.start()
        sender.close()  # the child has its own; with ours open its death would go unnoticed
    try:
        for group in range(groups):
            yield _received(pipes[group % workers][0], group)
    finally:
        for process, (receiver, _) in zip(processes, pipes, strict=True):
            receiver.close()
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


def _serve(work: Work, groups: range, sender: Connection) -> None:
    """Body of a process."""
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
