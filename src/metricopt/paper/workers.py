"""The same paths from any number of processes: tasks in groups, each with random numbers of its own."""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from metricopt.core.errors import MetricFailureWarning
from metricopt.core.records import Trajectory, at_steps
from metricopt.core.seeding import stream
from metricopt.paper.collect import Spacing, checked_observations, observed_steps, walk
from metricopt.paper.forked import can_fork, in_turn, one_thread, shared_zeros
from metricopt.run.ledger import Query, QueryLedger
from metricopt.task.finetuning import OptimizerFactory
from metricopt.task.oracle import Oracle

TASKS_A_GROUP = 16
_STAGE = "trajectories"


class Walked(NamedTuple):
    """What is known of one group of tasks besides its paths: losses, and the answers of a process that has asked."""

    loss: np.ndarray
    queries: list[Query] | None


def collect_in_groups(
    oracle: Oracle,
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
        oracle: Its metric is asked by the processes unless it is costly or answers go through a journal.
        steps: T, finetuning steps of one task.
        observations: K, metric queries along one task.
        optimizer: From the number of a group to a factory of its optimizer, so that groups may differ in seed.
        start: First phi of each path, (tasks, dim).
        seed: Everything random depends on it alone.
        workers: Processes, this one among them.
        spacing: Of the observed steps, see `collect`.

    Example:
        >>> from functools import partial
        >>> from metricopt.task.oracle import Oracle
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> sgd = lambda group: partial(torch.optim.SGD, lr=0.1)
        >>> options = dict(steps=10, observations=3, optimizer=sgd, start=torch.zeros(20, 4), seed=0)
        >>> alone = collect_in_groups(Oracle(QuadraticTask(dim=4)), **options)
        >>> torch.equal(alone.phi, collect_in_groups(Oracle(QuadraticTask(dim=4)), **options, workers=2).phi)
        True
    """
    checked_observations(steps, observations)
    task = oracle.task
    task.prepare()
    oracle.margins()
    starts = start.split(TASKS_A_GROUP)
    asks = oracle.asks_cheaply and oracle.ledger.journal is None and oracle.crew is None
    if asks:
        oracle.ledger.charge(len(start) * observations, stage=_STAGE)
    draw = stream(seed, "observed") if spacing == "random" else None
    observed = observed_steps(len(start), steps, observations, draw=draw)
    phi = shared_zeros(len(start), steps, task.dim, dtype=start.dtype)

    def work(group: int) -> Walked:
        paths = phi.split(TASKS_A_GROUP)[group]
        seen = observed.split(TASKS_A_GROUP)[group]
        generator = stream(seed, "group", group)
        paths[:], loss = walk(task, starts[group], steps, optimizer=optimizer(group), generator=generator)
        queries = _asked(oracle, at_steps(paths, seen).flatten(0, 1)) if asks else None
        return Walked(loss.numpy(), queries)

    workers = max(1, min(workers, len(starts))) if task.forks and can_fork() else 1
    with one_thread():
        walked = list(in_turn(work, len(starts), workers=workers))
    costs = []
    for rows, group in zip(at_steps(phi, observed).split(TASKS_A_GROUP), walked, strict=True):
        points = rows.flatten(0, 1)
        costs.append(_entered(oracle, points, group.queries) if asks else oracle.observe(points, stage=_STAGE))
    loss = torch.cat([torch.from_numpy(group.loss) for group in walked])
    return Trajectory(phi, loss, observed, torch.cat(costs).view(observed.shape), noise_std=oracle.noise_std())


def _asked(oracle: Oracle, phi: Tensor) -> list[Query]:
    """Answers about phi, entered nowhere yet."""
    apart = QueryLedger()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MetricFailureWarning)  # said when they are entered
        for part in phi.split(oracle.task.members_at_once):
            sheet = apart.sheet(part, stage=_STAGE)
            oracle.fill(sheet)
            sheet.enter()
    return apart.queries


def _entered(oracle: Oracle, phi: Tensor, queries: list[Query] | None) -> Tensor:
    sheet = oracle.ledger.sheet(phi, stage=_STAGE)
    for member, query in enumerate(queries or ()):
        sheet.write(member, query)
        if query.failure:
            warnings.warn(query.failure, MetricFailureWarning, stacklevel=2)
    return oracle.entered(sheet)
