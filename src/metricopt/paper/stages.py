"""The paper's two stages, each usable alone: learn a value function, then finetune with it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor

from metricopt.core.errors import BudgetError, DataError
from metricopt.core.records import LabelledTrajectory, Outcome, Trajectory
from metricopt.core.seeding import derived_seed, stream
from metricopt.paper.collect import collect
from metricopt.paper.diagnostics import ValueHealth, health, warn_if_flat
from metricopt.paper.guided import MetricGuided
from metricopt.paper.interpolate import interpolate
from metricopt.paper.rates import guided_rates, loss_rate
from metricopt.paper.settings import OPTIMIZERS, Stages
from metricopt.paper.training import fit
from metricopt.paper.value_function import ValueFunction
from metricopt.paper.workers import collect_in_groups
from metricopt.task.base import Task
from metricopt.task.finetuning import OptimizerFactory, finetuning
from metricopt.task.oracle import Oracle


@dataclass(frozen=True)
class LearntValue:
    """A value function with the evidence it rests on.

    Attributes:
        value: The function, (n, dim) -> (n,).
        health: Its health on trajectories it never saw.
        trajectory: The paths of the last round.
        unseen: The paths of all rounds that were held out for `health`.
        labelled: All paths learnt from, with interpolated costs.

    Example:
        >>> from metricopt.paper.training import Training
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> quick = Stages(rounds=1, training=Training(steps=20))
        >>> learnt = learn_value_function(Oracle(QuadraticTask(dim=2)), queries=50, stages=quick)
        >>> learnt.trajectory.phi.shape, learnt.value(torch.zeros(3, 2)).shape
        (torch.Size([10, 50, 2]), torch.Size([3]))
    """

    value: ValueFunction
    health: ValueHealth
    trajectory: Trajectory
    unseen: Trajectory
    labelled: LabelledTrajectory


def learn_value_function(oracle: Oracle, *, queries: int, seed: int = 0, stages: Stages | None = None) -> LearntValue:
    """Stage 1: trajectories, interpolated, then a value function, within `queries` metric queries.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> learnt = learn_value_function(Oracle(QuadraticTask(dim=4)), queries=100)
        >>> learnt.health.rank_correlation > 0.6
        True
    """
    stages = settled(oracle.task, Stages() if stages is None else stages, seed=seed)
    tasks = _tasks_a_round(stages, queries)
    learnt = _one_round(oracle, tasks, stages, None, seed=seed)
    for turn in range(1, stages.rounds):
        learnt = _one_round(oracle, tasks, stages, learnt, seed=derived_seed(seed, "round", turn))
    warn_if_flat(learnt.health)
    return learnt


def finetune(
    task: Task, value: ValueFunction, *, seed: int = 0, stages: Stages | None = None, start: Tensor | None = None
) -> Outcome:
    """Stage 2: one path from `start` (phi = 0) led by the value function; it queries nothing.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task = QuadraticTask(dim=4)
        >>> learnt = learn_value_function(Oracle(task), queries=100)
        >>> outcome = finetune(task, learnt.value)
        >>> before, after = task.costs(torch.stack([torch.zeros(4), outcome.phi]))
        >>> bool(after < before)
        True
    """
    stages = settled(task, Stages() if stages is None else stages, seed=seed)
    start = torch.zeros(task.dim) if start is None else start.detach().cpu()
    if start.shape != (task.dim,):
        raise DataError(f"start has shape {tuple(start.shape)}; expected ({task.dim},), one phi of this task")
    batches = task.batches(1, stream(seed, "finetune"))
    guided = _guided(stages, value, seed)
    final = start.clone()
    for step in finetuning(task, start[None], batches, steps=stages.steps, optimizer=guided):
        final = step.phi[0]
    return Outcome(final, ((0, start), (0, final)))


def settled(task: Task, stages: Stages, *, seed: int) -> Stages:
    """The same stages with a rate, if they leave it open.

    Example:
        >>> from metricopt.paper.settings import PAPER
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> settled(QuadraticTask(dim=4), PAPER, seed=0).lr > 0
        True
    """
    if stages.lr is not None:
        return stages
    return replace(stages, lr=loss_rate(task, steps=stages.steps, start_std=stages.start_std, seed=seed))


def rates_to_try(
    task: Task, value: ValueFunction, stages: Stages, *, reaches: Sequence[float], seed: int
) -> list[float]:
    """Rates of stage 2 that lead so far, in units of how far the first phi of a task is from 0; it queries nothing.

    Example:
        >>> from metricopt.paper.settings import PAPER
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task = QuadraticTask(dim=4)
        >>> rates = rates_to_try(task, lambda phi: phi.square().sum(1), PAPER, reaches=(0.3, 1.0), seed=0)
        >>> len(rates)
        2
    """
    unit = _guided(replace(stages, guided_lr=1.0), value, seed)
    return guided_rates(task, unit, steps=stages.steps, start_std=stages.start_std, reaches=reaches, seed=seed)


def _one_round(oracle: Oracle, tasks: int, stages: Stages, before: LearntValue | None, *, seed: int) -> LearntValue:
    trajectory = collect_paths(oracle, tasks, stages, None if before is None else before.value, seed=seed)
    return learn_from(oracle, trajectory, stages, before, seed=seed)


def learn_from(
    oracle: Oracle, trajectory: Trajectory, stages: Stages, before: LearntValue | None = None, *, seed: int
) -> LearntValue:
    """Interpolate and fit once; health is measured on the held-out paths of these and of those `before`.

    Example:
        >>> from metricopt.paper.training import Training
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> oracle, quick = Oracle(QuadraticTask(dim=2)), Stages(training=Training(steps=20))
        >>> learn_from(oracle, collect_paths(oracle, 5, quick, seed=0), quick, seed=0).health.observations
        5
    """
    kept, unseen = _held_out(trajectory, stages.held_out)
    labelled = interpolate(kept, uncertainty=stages.uncertainty)
    _note_paths(oracle, kept, labelled)
    if before is not None:
        labelled, unseen = _joined([before.labelled, labelled]), joined_paths([before.unseen, unseen])
    pulse = oracle.ledger.pulse
    pulse.phase("value function", total=stages.training.updates(len(labelled.phi)))
    value = fit(labelled, stages.training, generator=stream(seed, "value"), beat=pulse.beat)
    phi, costs = unseen.observed_phi.flatten(0, 1), unseen.costs.flatten().float()
    report = health(value, phi, costs)
    with torch.no_grad():
        oracle.ledger.note("health", {**asdict(report), "flat": report.flat, "predicted": value(phi), "true": costs})
        features = value.embed(trajectory.observed_phi.flatten(0, 1))[0]  # of the first member
        oracle.ledger.note("embedding", {"features": features, "costs": trajectory.costs.flatten()})
    return LearntValue(value, report, trajectory, unseen, labelled)


def _note_paths(oracle: Oracle, paths: Trajectory, labelled: LabelledTrajectory) -> None:
    """For the report: observations, interpolation and its band along each path, which query nothing more."""
    fields = {
        "phi": paths.phi,
        "loss": paths.loss,
        "observed_steps": paths.observed_steps,
        "costs": paths.costs,
        "mean": labelled.mean,
        "std": labelled.std,
    }
    oracle.ledger.note("trajectory", fields)


def collect_paths(
    oracle: Oracle, tasks: int, stages: Stages, value: ValueFunction | None = None, *, seed: int
) -> Trajectory:
    """Paths of so many tasks from random phi, along the loss or led by a value function, observed now and then.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> collect_paths(Oracle(QuadraticTask(dim=2)), 5, Stages(), seed=0).costs.shape
        torch.Size([5, 5])
    """
    generator = stream(seed, "collect")
    start = stages.start_std * torch.randn(tasks, oracle.dim, generator=generator)

    def optimizer(group: int) -> OptimizerFactory:
        return _plain(stages) if value is None else _guided(stages, value, derived_seed(seed, group) if group else seed)

    steps, observations = stages.steps, stages.queries_a_task
    if stages.workers is None:
        return collect(
            oracle,
            steps=steps,
            observations=observations,
            optimizer=optimizer(0),
            start=start,
            generator=generator,
            spacing=stages.spacing,
        )
    return collect_in_groups(
        oracle,
        steps=steps,
        observations=observations,
        optimizer=optimizer,
        start=start,
        seed=seed,
        workers=stages.workers,
        spacing=stages.spacing,
    )


def _plain(stages: Stages) -> OptimizerFactory:
    return lambda parameters: OPTIMIZERS[stages.optimizer](parameters, lr=stages.lr)


def _guided(stages: Stages, value: ValueFunction, seed: int) -> OptimizerFactory:
    rate = stages.lr if stages.guided_lr is None else stages.guided_lr
    return lambda parameters: MetricGuided(
        OPTIMIZERS[stages.optimizer](parameters, lr=rate),
        value,
        combine=stages.combine,
        estimator=stages.estimator,
        weight=stages.weight,
        normalise=stages.normalise,
        seed=seed,
    )


def _tasks_a_round(stages: Stages, queries: int) -> int:
    tasks = queries // (stages.queries_a_task * stages.rounds)
    if queries < stages.least_queries:
        raise BudgetError(
            f"{queries} metric queries give {tasks} trajectories of {stages.queries_a_task} observations in each of "
            f"{stages.rounds} rounds; expected at least 4: grant {stages.least_queries} queries, "
            f"or set fewer observations or rounds"
        )
    return tasks


def _held_out(trajectory: Trajectory, share: float) -> tuple[Trajectory, Trajectory]:
    tasks = len(trajectory.phi)
    cut = tasks - max(1, round(share * tasks))
    return trajectory.rows(torch.arange(cut)), trajectory.rows(torch.arange(cut, tasks))


def _joined(parts: list[LabelledTrajectory]) -> LabelledTrajectory:
    return LabelledTrajectory(
        torch.cat([p.phi for p in parts]), torch.cat([p.mean for p in parts]), torch.cat([p.std for p in parts])
    )


def joined_paths(parts: list[Trajectory]) -> Trajectory:
    """Paths of several collections as one, with the noise of the last.

    Example:
        >>> one = Trajectory(torch.zeros(2, 5, 3), torch.zeros(2, 5), torch.zeros(2, 2).long(), torch.zeros(2, 2), 0.01)
        >>> len(joined_paths([one, one]).phi)
        4
    """
    return Trajectory(
        torch.cat([p.phi for p in parts]),
        torch.cat([p.loss for p in parts]),
        torch.cat([p.observed_steps for p in parts]),
        torch.cat([p.costs for p in parts]),
        noise_std=parts[-1].noise_std,
    )
