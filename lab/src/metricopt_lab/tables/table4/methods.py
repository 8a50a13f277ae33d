"""The rows of Table 4: losses on all weights, MetricOpt transferred, learnt on the spot, and further runs."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import final

import torch
from torch import Tensor

from metricopt.api.optimize import propose
from metricopt.paper.preset import follow, learn
from metricopt.paper.stages import LearntValue
from metricopt.search import Recipe
from metricopt_lab.problems import Problem
from metricopt_lab.rivals.published.ala import ASKED, PACE, Policy, aligned
from metricopt_lab.tables.table4.scales import SCALES, problem
from metricopt_lab.tables.table4.theta import Make, momentum, power_sign, rmsprop, trained

TARGET, SMALLER, EARLIER = ("nasnet_a", "tinyimagenet"), ("resnet18", "tinyimagenet"), ("nasnet_a", "cifar10")
"""Network and data of the new task, of the smaller network on the same data, and of the other data."""

METHODS = {
    "pretrained": "where everything starts",
    "rmsprop": "RMSProp with cross-entropy, all weights",
    "power_sign": "PowerSign-cd (the rule found on CIFAR-10), all weights",
    "ala": "ALA (policy from CIFAR-10)",
    "metricopt_resnet18": "MetricOpt (value function from ResNet-18 on the same data)",
    "metricopt_cifar10": "MetricOpt (value function from CIFAR-10 with NASNet-A)",
    "metricopt": "MetricOpt (value function learnt on the spot)",
    "metricopt_search": "our default search on the spot",
    "second_run": "MetricOpt + 2nd run (theta, then phi)",
    "third_run": "and a 3rd run",
}
"""What each row is."""


@dataclass(frozen=True)
class Found:
    """What a method ends with.

    Attributes:
        where: The problem, whose network may have been trained further.
        phi: The vector there, (dim,).
        queries: Metric queries on the new task.
        meta_queries: Metric queries elsewhere, from which it has learnt before.
        rank_correlation: Of a value function with paths it had not seen, where it was learnt; None without one.
        merged: What earlier runs have left in the weights, as a phi, (dim,).
    """

    where: Problem
    phi: Tensor
    queries: int = 0
    meta_queries: int = 0
    rank_correlation: float | None = None
    merged: Tensor | float = 0.0


@final
class Bench:
    """The new task at one seed; what several rows need is computed once."""

    def __init__(self, scale: str, seed: int) -> None:
        self.name, self.scale, self.seed = scale, SCALES[scale], seed
        self.problem = problem(*TARGET, scale, seed)

    @cached_property
    def methods(self) -> dict[str, Callable[[], Found]]:
        """What computes each of the rows."""
        return {
            "pretrained": lambda: Found(self.problem, self._zero),
            "rmsprop": partial(self.loss_alone, rmsprop),
            "power_sign": partial(self.loss_alone, power_sign),
            "ala": self.ala,
            "metricopt_resnet18": lambda: self.transferred(self.smaller),
            "metricopt_cifar10": lambda: self.transferred(self.earlier),
            "metricopt": lambda: self.on_the_spot,
            "metricopt_search": self.search,
            "second_run": lambda: self.second,
            "third_run": lambda: self.again(self.second),
        }

    @property
    def _zero(self) -> Tensor:
        return torch.zeros(self.scale.dim)

    def loss_alone(self, make: Make) -> Found:
        """All weights for as many further steps as MetricOpt finetunes phi: all have the same steps in total."""
        return Found(self._trained(self.problem, make, self.scale.stages.steps), self._zero)

    def _trained(self, where: Problem, make: Make, steps: int) -> Problem:
        how = {"steps": steps, "batch_size": self.scale.batch_size, "seed": self.seed}
        return replace(where, net=trained(where.net, where.train, make, **how))

    def ala(self) -> Found:
        """A policy of pairs of classes from CIFAR-10, which learns on here."""
        policy, source = Policy(seed=self.seed), problem(*EARLIER, self.name, self.seed)
        taught = source.oracle(queries=self.scale.queries, labels_visible=True)
        aligned(taught, policy, queries=self.scale.queries, seed=self.seed)
        few = 1 + ASKED * max(1, self.scale.stages.steps // PACE.steps)  # as many steps as all others have
        oracle = self.problem.oracle(queries=few, labels_visible=True)
        outcome = aligned(oracle, policy, queries=few, seed=self.seed)
        return Found(self.problem, outcome.phi, oracle.ledger.used, taught.ledger.used)

    @cached_property
    def smaller(self) -> LearntValue:
        """Learnt with the smaller network on the same data."""
        return self._learnt(problem(*SMALLER, self.name, self.seed))

    @cached_property
    def earlier(self) -> LearntValue:
        """Learnt with the same network on CIFAR-10."""
        return self._learnt(problem(*EARLIER, self.name, self.seed))

    def _learnt(self, where: Problem) -> LearntValue:
        oracle = where.oracle(queries=self.scale.queries)
        return learn(oracle, queries=self.scale.queries, seed=self.seed, stages=self.scale.stages)

    def transferred(self, learnt: LearntValue) -> Found:
        """Finetuning here along a value function from elsewhere; queries here choose how far."""
        # All paths, those among them that f was not shown.
        taught = learnt.trajectory.phi.shape[0] * self.scale.stages.queries_a_task
        return self._followed(self.problem, learnt, meta=taught)

    def _followed(self, where: Problem, learnt: LearntValue, *, meta: int, part: float = 1.0) -> Found:
        oracle = where.oracle(queries=None)
        steps = max(2, round(part * self.scale.stages.steps))
        own = self.scale.stages
        # Rates are such that all steps lead as far as phi_0 is from 0: of a part of the steps, to that part of it.
        stages = replace(own, steps=steps, observations=min(steps, own.queries_a_task), start_std=part * own.start_std)
        found = follow(oracle, learnt, seed=self.seed, stages=stages)
        correlation = learnt.health.rank_correlation
        return Found(where, found.phi, oracle.ledger.used, meta, correlation)

    @cached_property
    def spot(self) -> LearntValue:
        """Learnt on the new task itself."""
        return self._learnt(self.problem)

    @cached_property
    def on_the_spot(self) -> Found:
        """Stage 1 and stage 2 on the new task."""
        found = self._followed(self.problem, self.spot, meta=0)
        return replace(found, queries=self.scale.queries)

    @cached_property
    def second(self) -> Found:
        """From the phi of the first run: theta along the loss, then a quick adjustment of phi."""
        return self.again(self.on_the_spot)

    def again(self, before: Found) -> Found:
        """One more run: a fifth of the steps for phi, by the value function there is.

        That was learnt where phi = 0 is the pre-trained network; here it is the one with earlier runs merged, and so
        f is asked about phi beside theirs. Scales compose, (1 + A phi)(1 + A phi'), so that is right to first order.
        """
        model = before.where.model.twin()
        model.phi.data.copy_(before.phi)
        where = replace(before.where, net=model.merge())
        merged, value = before.merged + before.phi, self.spot.value
        shifted = replace(self.spot, value=lambda points: value(points + merged))
        trained_on = self._trained(where, momentum, self.scale.stages.steps)
        found = self._followed(trained_on, shifted, meta=0, part=0.2)
        return replace(found, queries=before.queries + found.queries, merged=merged)

    def search(self) -> Found:
        """`optimize`'s search of an adapter, with as many queries as the value function on the spot took."""
        recipe = Recipe(start_steps=10, candidates=40, rows=50) if self.name == "smoke" else Recipe()
        oracle = self.problem.oracle(queries=self.scale.queries)
        outcome, correlation = propose(oracle, queries=self.scale.queries, recipe=recipe, seed=self.seed)
        return Found(self.problem, outcome.phi, oracle.ledger.used, 0, correlation)
