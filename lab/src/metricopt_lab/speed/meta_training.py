"""Figures (b), (c) and (f): trajectories of many tasks at once, their interpolation, and several processes."""

import multiprocessing
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from metricopt.core.records import LabelledTrajectory, Trajectory
from metricopt.core.seeding import stream
from metricopt.metrics import f_beta
from metricopt.paper.collect import collect, observed_steps
from metricopt.paper.interpolate import interpolate
from metricopt.paper.training import Training, fit
from metricopt.paper.workers import collect_in_groups
from metricopt.task.oracle import Oracle
from metricopt.task.supervised import SupervisedTask
from metricopt_lab.speed.figures import FIGURES, Effort, Figure, Label, ratio
from metricopt_lab.speed.problems import A9A_SEARCH, A9A_TRAIN, tabular_task, vectors
from metricopt_lab.speed.timing import children_seconds, quartiles

_TASKS = 64
_SGD = partial(torch.optim.SGD, lr=0.1)


@FIGURES.add("b")
def many_tasks(effort: Effort) -> list[Figure]:
    """Meta-training of 64 tasks one after the other / all at once.

    Example:
        >>> len(many_tasks(Effort(repeats=1, quick=True)))
        3
    """
    tasks = effort.of(_TASKS, 3)
    fewer = Effort(max(1, effort.repeats // 4), quick=effort.quick)
    figures = []
    for batch, target in ((32, 5.0), (256, None)):
        cached, plain = (_task(effort, batch, cache) for cache in (2**30, 0))
        note = "T = 50, K = 5, F1 on 4,884 rows; looped: a population of one after another, without cache"
        what = f"looped / batched trajectories and GP of {tasks} tasks, A9A MLP, batch {batch}"
        label = Label("b", what, target=target, sense="at least", note=note)
        figures.append(ratio(label, partial(_looped, plain, tasks), partial(_batched, cached, tasks), fewer))
    return [*figures, _inner_loops(effort, tasks)]


def _inner_loops(effort: Effort, tasks: int) -> Figure:
    draw = stream(0, "inner loops")
    phi = torch.randn(tasks, 50, 18, generator=draw)
    labelled = LabelledTrajectory(phi, phi[..., 0].sigmoid(), torch.full((tasks, 50), 0.01))

    def reptile(meta_batch: int) -> object:
        recipe = Training(scheme="reptile", norm="batch", members=1, standardise=False, meta_batch=meta_batch)
        return fit(labelled, recipe, generator=stream(0, "reptile"))

    label = Label("b", f"looped / batched Reptile inner loops of {tasks} tasks", note="10 SGD steps on Eq. 2 each")
    return ratio(label, partial(reptile, 1), partial(reptile, tasks), Effort(max(1, effort.repeats // 2)))


@FIGURES.add("c")
def interpolation(effort: Effort) -> list[Figure]:
    """scikit-learn's GP / ours.

    Example:
        >>> len(interpolation(Effort(repeats=1, quick=True)))
        6
    """
    figures = []
    for observations, steps in ((10, 200), (50, 1000)):
        paths = observed_paths(effort.of(_TASKS, 2), steps, observations)
        few = paths.rows(torch.arange(min(8, len(paths.phi))))
        what = f"scikit-learn / ours, GP of {len(paths.phi)} trajectories, K = {observations}, T = {steps}"
        for restarts, failed in ((0, False), (9, False), (0, True)):
            note = (
                f"scikit-learn: Constant * RBF + White, default L-BFGS, {restarts} restarts, "
                f"timed on {len(few.phi)} of {len(paths.phi)}; ours: the best of 20 grid points"
            )
            known = f"{what}, {restarts} restarts" + ", one query of each failed for us" * failed
            target = 200.0 if restarts == 0 and not failed else None
            label = Label("c", known, target=target, sense="at least", note=note)
            rounds = Effort(max(1, effort.repeats // (3 if restarts else 1)), quick=effort.quick)
            ours = partial(interpolate, _with_failures(paths) if failed else paths)
            found = ratio(label, partial(_scikit_learn, few, restarts), ours, rounds)
            share = len(paths.phi) / len(few.phi)
            whole = {"median": share * found.median, "low": share * found.low, "high": share * found.high}
            figures.append(replace(found, **whole))
    return figures


def _with_failures(paths: Trajectory) -> Trajectory:
    """The same paths where one observation of each is missing, another one for each."""
    costs = paths.costs.clone()
    tasks, observations = costs.shape
    costs[torch.arange(tasks), torch.arange(tasks) % observations] = torch.nan
    return replace(paths, costs=costs)


@FIGURES.add("f")
def processes(effort: Effort) -> list[Figure]:
    """One worker / two workers.

    Example:
        >>> len(processes(Effort(repeats=1, quick=True)))
        3
    """
    task = _task(effort, 256, 2**30)
    tasks = effort.of(_TASKS, 20)
    one, two = (partial(_grouped, task, tasks, workers) for workers in (1, 2))
    what = f"1 worker / 2 workers, trajectories of {tasks} tasks, A9A MLP, batch 256"
    clock = Label("f", f"{what}, by the clock", target=1.7, sense="at least", note=f"{os.cpu_count()} shared cores")
    control = Label("f", "the same for counting, by the clock", note="what two processes could get of the machine then")
    count = [partial(_counted, workers, effort.of(2 * 10**7, 10**4)) for workers in (1, 2)]
    return [
        ratio(clock, one, two, effort, clock=time.perf_counter),
        ratio(control, count[0], count[1], effort, clock=time.perf_counter),
        _free_cores(what, one, two, effort),
    ]


def _free_cores(what: str, one: Callable[[], object], two: Callable[[], object], effort: Effort) -> Figure:
    """The computing time of one process over that of the busier of two, this one and the one it forks."""
    found = []
    for _ in range(effort.repeats):
        began = time.process_time()
        one()
        alone = time.process_time() - began
        own, theirs = time.process_time(), children_seconds()
        two()
        own, theirs = time.process_time() - own, children_seconds() - theirs
        found.append(alone / max(own, theirs, 1e-9))
    note = "computing time alone / that of the busier of two processes: what two free cores would give"
    median, low, high = quartiles(np.array(found))
    return Figure("f", f"{what}, by computing time", median, low, high, effort.repeats, 1.7, "at least", note)


def _counted(workers: int, numbers: int) -> None:
    """Counting that needs no memory, shared by so many processes."""
    context = multiprocessing.get_context("fork")
    counting = [context.Process(target=sum, args=(range(numbers // workers),)) for _ in range(workers)]
    for process in counting:
        process.start()
    for process in counting:
        process.join()


def _task(effort: Effort, batch: int, cache: int) -> SupervisedTask:
    train, search = effort.of((A9A_TRAIN, A9A_SEARCH), (200, 50))
    return tabular_task(batch_size=batch, train=train, search=search, metric=f_beta(), cache=cache)


def _batched(task: SupervisedTask, tasks: int) -> object:
    generator = stream(0, "batched")
    start = vectors(tasks, task.dim)
    paths = collect(Oracle(task), steps=50, observations=5, optimizer=_SGD, start=start, generator=generator)
    return interpolate(paths)


def _looped(task: SupervisedTask, tasks: int) -> object:
    generator = stream(0, "looped")
    for start in vectors(tasks, task.dim).split(1):
        paths = collect(Oracle(task), steps=50, observations=5, optimizer=_SGD, start=start, generator=generator)
        interpolate(paths)
    return None


def _grouped(task: SupervisedTask, tasks: int, workers: int) -> object:
    return collect_in_groups(
        Oracle(task),
        steps=50,
        observations=5,
        optimizer=lambda _group: _SGD,
        start=vectors(tasks, task.dim),
        seed=0,
        workers=workers,
    )


def observed_paths(tasks: int, steps: int, observations: int) -> Trajectory:
    """Paths whose cost decays at different rates, observed with noise.

    Example:
        >>> observed_paths(3, 20, 5).costs.shape
        torch.Size([3, 5])
    """
    draw = stream(0, "observed", steps)
    observed = observed_steps(tasks, steps, observations)
    rate = 4 * torch.rand(tasks, 1, generator=draw)
    costs = 0.2 + 0.3 * torch.exp(-rate * observed / steps)
    costs = costs + 0.01 * torch.randn(tasks, observations, generator=draw)
    return Trajectory(torch.zeros(tasks, steps, 16), torch.zeros(tasks, steps), observed, costs.double(), 0.005)


def _scikit_learn(paths: Trajectory, restarts: int) -> object:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    steps = paths.phi.shape[1]
    every = np.arange(steps)[:, None] / steps
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of hyper-parameters at their bounds
        for observed, costs in zip(paths.observed_steps.numpy(), paths.costs.numpy(), strict=True):
            kernel = ConstantKernel() * RBF(0.3) + WhiteKernel(1e-3)
            process = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=restarts, random_state=0)
            process.fit(observed[:, None] / steps, costs).predict(every, return_std=True)
    return None
