"""Algorithm S1: an update rule is trained on unrolled finetuning, together with the value function that judges it."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path as FilePath
from typing import Any, final

import torch
from torch import Tensor

from metricopt.core.errors import FlatValueWarning, UnrollError
from metricopt.core.records import Trajectory, at_steps
from metricopt.core.seeding import stream
from metricopt.core.tree import tensors_of
from metricopt.paper.collect import observed_steps
from metricopt.paper.diagnostics import ValueHealth, health
from metricopt.paper.interpolate import interpolate
from metricopt.paper.learned.checkpoint import Checkpoint
from metricopt.paper.learned.equation_s2_objective import optimizer_objective
from metricopt.paper.learned.equation_s3_estimators import (
    estimate,
    evolution_gradients,
    noisy_pairs,
    reparametrised_gradients,
)
from metricopt.paper.learned.named_tensors import in_parts, part_of
from metricopt.paper.learned.online_value import OnlineValue, cautious
from metricopt.paper.learned.settings import Iteration, MetaTraining
from metricopt.paper.learned.trusted_steps import TrustedSteps
from metricopt.paper.learned.unroll import Path, Unroll
from metricopt.paper.learned.weights import LearnedWeights
from metricopt.paper.network import ValueNetwork
from metricopt.task.oracle import Oracle

Watch = Callable[[Iteration], None]

_PATIENCE = 3  # iterations in a row of which nothing is left


@final
@dataclass(frozen=True, eq=False)
class MetaTrained:
    """What meta-training gave.

    Attributes:
        learned: The rule with its weights, for `LearnedOptimizer`.
        value: The value function that was learnt beside it; None where no metric was asked.
        history: What each iteration did, those before a resumption included.
    """

    learned: LearnedWeights
    value: ValueNetwork | None
    history: tuple[Iteration, ...]

    @property
    def queries(self) -> int:
        """Metric queries of all iterations."""
        return sum(each.queries for each in self.history)


def meta_train(
    oracle: Oracle,
    settings: MetaTraining | None = None,
    *,
    seed: int = 0,
    folder: FilePath | str | None = None,
    watch: Watch | None = None,
) -> MetaTrained:
    """Train an update rule on random tasks of the oracle's problem.

    Args:
        oracle: Whose task's loss is followed and whose metric is asked.
        settings: Of Algorithm S1.
        seed: Of everything random.
        folder: Where each iteration is kept; a run that was stopped goes on there, to the same bits.
        watch: Told about each iteration.

    Example:
        >>> from metricopt.paper.training import Training
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> quick = MetaTraining(iterations=3, tasks=4, steps=10, warm_up=1, value=Training(steps=50))
        >>> trained = meta_train(Oracle(QuadraticTask(dim=3)), quick)
        >>> trained.queries, len(trained.history)
        (60, 3)
    """
    settings = MetaTraining() if settings is None else settings
    work = _MetaTrainer(oracle, settings, seed)
    checkpoint = None if folder is None else Checkpoint(FilePath(folder), settings, seed)
    history = [] if checkpoint is None else checkpoint.resume(work.load)
    for number in range(len(history), settings.iterations):
        history.append(work.iterate(number))
        if checkpoint is not None:
            checkpoint.write(history, work.tensors())
        if watch is not None:
            watch(history[-1])
    about = {"tasks": settings.all_tasks, "steps": settings.steps, "queries": sum(h.queries for h in history)}
    learned = LearnedWeights(settings.rule, work.steps.weights.clone(), about)
    return MetaTrained(learned, work.value.network if settings.weight else None, tuple(history))


@final
class _MetaTrainer:
    def __init__(self, oracle: Oracle, settings: MetaTraining, seed: int) -> None:
        self.oracle, self.settings, self.seed = oracle, settings, seed
        self.steps = TrustedSteps(settings.rule.initial(stream(seed, "meta", "weights")), lr=settings.meta_lr)
        self.value = OnlineValue(oracle.dim, settings.value, generator=stream(seed, "meta", "value"))
        self._barren = 0
        self._warned = False

    def iterate(self, number: int) -> Iteration:
        settings = self.settings
        draw = stream(self.seed, "meta", number)
        start = settings.start_std * torch.rand(settings.tasks, 1, generator=draw)
        start = start * torch.randn(settings.tasks, self.oracle.dim, generator=draw)
        noise = settings.std * torch.randn(settings.tasks, settings.rule.size, generator=draw)
        batches = self._batches(draw)
        learning = bool(settings.weight) and (number < settings.warm_up or not self.value.ready)
        weights = self.steps.weights + noise if learning else noisy_pairs(self.steps.weights, noise)
        unroll = self._unroll()
        path = unroll.forward(weights, start.repeat(len(weights) // len(start), 1), batches)
        self._check(path, number)
        report = self._observe(path, draw) if settings.weight else None
        misled = not learning and report is not None and self._flat(report[0])
        taken_back = misled and self.steps.take_back()
        if report is not None and not misled:  # where all paths exploded nobody knows
            self.steps.trust()
        fit = not learning and not misled
        found = self._update(unroll, weights, path, batches, noise, number) if fit else (math.nan, 0, math.nan, False)
        if report is not None:
            self.value.learn(report[1], rate=1 - number / settings.iterations, generator=draw)
        objective, exploded, share, updated = found
        ends = path.loss[path.finite, -1]
        return Iteration(
            number,
            objective=objective,
            loss=float(ends.mean()),
            exploded=exploded,
            share=share,
            correlation=math.nan if report is None or report[0] is None else report[0].rank_correlation,
            updated=updated,
            taken_back=taken_back,
            queries=0 if report is None else report[2],
        )

    def _unroll(self) -> Unroll:
        settings = self.settings
        value = cautious(self.value.network, settings.caution) if settings.weight and self.value.ready else None
        return Unroll(
            self.oracle.task,
            settings.rule,
            value,
            lr=settings.rule.lr,
            metric_every=settings.metric_every,
            second_order=settings.second_order,
            truncation=settings.truncation,
        )

    def _batches(self, draw: torch.Generator) -> list[Any]:
        drawn = self.oracle.task.batches(self.settings.tasks, draw)
        first = next(drawn)
        state = 2 * self.settings.tasks * self.oracle.dim * 4 * 4  # phi, averages and what else a rule remembers
        size = (self.settings.steps + 1) * (state + sum(t.nbytes for t in tensors_of(first)))
        if size > self.settings.memory:
            raise UnrollError(
                f"{self.settings.steps} steps of {self.settings.tasks} tasks take {size / 2**20:,.0f} MiB; expected at "
                f"most {self.settings.memory / 2**20:,.0f}: set fewer steps or tasks, or more memory"
            )
        return [first, *(next(drawn) for _ in range(self.settings.steps))]

    def _check(self, path: Path, number: int) -> None:
        """Raise where no path is of use: at once if the loss never was a number, otherwise if it goes on so."""
        if not bool(path.loss[:, 0].isfinite().any()):
            raise UnrollError(
                f"the loss is {float(path.loss[0, 0])} before the first step of every task; expected finite losses "
                f"near phi = 0: check the loss and the data"
            )
        self._barren = 0 if bool(path.finite.any()) else self._barren + 1
        if self._barren == _PATIENCE:
            raise UnrollError(
                f"all {len(path.phi)} unrolls of iterations {number - _PATIENCE + 1} to {number} left the numbers "
                f"there are; expected some that stay: lower the rule's lr ({self.settings.rule.lr:g}) or std "
                f"({self.settings.std:g})"
            )

    def _observe(self, path: Path, draw: torch.Generator) -> tuple[ValueHealth | None, Any, int] | None:
        """Health of the value function on the metric along the new paths, these with its interpolation, and queries."""
        tasks = self.settings.tasks
        usable = path.finite[:tasks]  # of the weights w + e alone: half the queries
        if not bool(usable.any()):
            return None
        phi, loss = path.phi[:tasks][usable], path.loss[:tasks][usable]
        steps = observed_steps(len(phi), phi.shape[1], self.settings.queries_a_task, draw=draw)
        asked = at_steps(phi, steps).flatten(0, 1)
        costs = self.oracle.observe(asked, stage="meta-training")
        report = health(self.value.network, asked, costs.float()) if self.value.ready else None
        trajectory = Trajectory(phi, loss, steps, costs.view(steps.shape), noise_std=self.oracle.noise_std())
        return report, interpolate(trajectory), len(asked)

    def _flat(self, report: ValueHealth | None) -> bool:
        flat = report is None or report.flat
        if flat and not self._warned:
            self._warned = True
            warnings.warn(
                f"the value function is flat: {report}; the optimizer is not trained on it and waits until it is not: "
                f"if that goes on, ask the metric more often (observations), take more tasks, or a longer warm_up "
                f"(said once)",
                FlatValueWarning,
                stacklevel=2,
            )
        return flat

    def _update(
        self, unroll: Unroll, weights: Tensor, path: Path, batches: list[Any], noise: Tensor, number: int
    ) -> tuple[float, int, float, bool]:
        """One step of the weights: mean objective, exploded unrolls, share of evolution strategies, and if it moved."""
        settings = self.settings
        objective = partial(self._objective, unroll)
        if settings.estimator == "es":
            with torch.no_grad():
                objectives, gradients = objective(path.loss, path.phi), None
        else:
            objectives, gradients = unroll.gradients(weights, path, batches, objective)
        fine = path.finite & objectives.isfinite() & (objectives < settings.ceiling * settings.scale)
        if gradients is not None:
            fine = fine & gradients.isfinite().all(-1)
        pairs = fine.view(2, -1).all(0)  # an estimate is of a pair: of one without the other it would be biased
        exploded = 2 * int((~pairs).sum())
        both = pairs.repeat(2)
        if int(pairs.sum()) < 2:
            return float(objectives[both].mean()), exploded, math.nan, False
        evolution = evolution_gradients(noise[pairs], objectives[both], std=settings.std)
        through = None if gradients is None else reparametrised_gradients(gradients[both])
        found = estimate(evolution, through, estimator=settings.estimator)
        bound = settings.clip * settings.scale
        self.steps.take(found.gradient.clamp(-bound, bound), share=1 - 0.9 * number / settings.iterations)
        return float(objectives[both].mean()), exploded, float(found.share.mean()), True

    def _objective(self, unroll: Unroll, losses: Tensor, phi: Tensor) -> Tensor:
        if unroll.value is None:
            return optimizer_objective(losses, None)
        costs = unroll.value(phi.flatten(0, 1)).view(phi.shape[:2])
        return optimizer_objective(losses, costs, weight=self.settings.weight)

    def tensors(self) -> dict[str, Tensor]:
        return in_parts(steps=self.steps.tensors(), value=self.value.tensors())

    def load(self, tensors: dict[str, Tensor]) -> None:
        self.steps.load(part_of(tensors, "steps"))
        self.value.load(part_of(tensors, "value"))
