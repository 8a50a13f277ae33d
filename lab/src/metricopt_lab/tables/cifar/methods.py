"""The rows of Tables 1 and 2: losses, rivals, the paper's own rivals, and MetricOpt as in the paper and by default."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import final

import torch
from torch import Tensor

from metricopt.acceptance.comparison import Comparison
from metricopt.acceptance.judge import Judge
from metricopt.adapters import Adapter, FiLM, LastLayer, OutputAffine, Parameters
from metricopt.api.optimize import optimize
from metricopt.api.propose import propose
from metricopt.crossfit.settings import CrossFit
from metricopt.losses import Loss, aucpr, cross_entropy, large_margin_softmax, pairwise_aucroc, raw_logits
from metricopt.paper.learned.settings import MetaTraining
from metricopt.paper.preset import follow, learn
from metricopt.paper.settings import PAPER, PAPER_LETTER, Stages
from metricopt.paper.stages import finetune, learn_value_function
from metricopt.paper.training import Training
from metricopt.search import Recipe
from metricopt_lab.optimizers.own import OWN, own_run
from metricopt_lab.problems import Problem
from metricopt_lab.rivals import BASELINES
from metricopt_lab.rivals.descent import loss_path, train_batches
from metricopt_lab.rivals.incumbent import Incumbent
from metricopt_lab.rivals.named import Baseline
from metricopt_lab.rivals.post_shift import search_shifts, shift_axes
from metricopt_lab.rivals.published import PUBLISHED
from metricopt_lab.rivals.published.lesson import Pace
from metricopt_lab.rivals.published.paces import LOSS
from metricopt_lab.rivals.weights.batches import joined
from metricopt_lab.tables.claims import PRESETS

AS_PRINTED = replace(PAPER, steps=200, observations=10)
"""The paper's T and K for CIFAR-10."""


@dataclass(frozen=True)
class Budget:
    """What a scale grants.

    Attributes:
        queries: Metric queries of every method that queries at all.
        stages: MetricOpt as in the paper with what works for us: its two stages, over SGD or Adam.
        paper: The paper's recipe with its two declared deviations, T and K as printed.
        recipe: Of the default search.
        weights: What the rows of published rivals about weights move.
        learned: Meta-training of the learned optimizer, which asks as often as it says.
        effort: Finetuning of weights by `optimize`.

    Example:
        >>> BUDGETS["paper"].paper.steps, BUDGETS["paper"].queries
        (200, 5005)
    """

    queries: int
    stages: Stages = field(default_factory=Stages)
    paper: Stages = AS_PRINTED
    recipe: Recipe = field(default_factory=Recipe)
    weights: Adapter = field(default_factory=LastLayer)
    learned: MetaTraining = OWN["small"]
    effort: CrossFit = field(default_factory=CrossFit)


BUDGETS = {
    "smoke": Budget(
        45,
        Stages(steps=10, training=Training(steps=20)),
        replace(PAPER.once, steps=10),
        Recipe(start_steps=10, candidates=40, rows=50),
        learned=OWN["smoke"],
        effort=CrossFit(folds=2, epochs=1, rates=(1e-3,), kinds=CrossFit().kinds[:1]),
    ),
    "small": Budget(300),
    # 500 tasks of K = 10 queries and T = 200 steps, and five queries for the ends of the paths.
    "paper": Budget(5005, Stages(steps=200, observations=10), weights=Parameters("*", dim=None), learned=OWN["paper"]),
}
"""What each scale grants."""


def budget_of(network: str, scale: str) -> Budget:
    """What a scale grants with a network: half the queries at scale small where one takes ten times as long.

    Example:
        >>> [budget_of(network, "small").queries for network in ADVANCED]
        [150, 300]
    """
    granted = BUDGETS[scale]
    slow = network == "resnet32" and scale == "small"
    return replace(granted, queries=granted.queries // 2) if slow else granted


# Probabilities forgive what a ranking by logits does not, so these losses rank by logits too.
_RANKING: dict[str, Loss] = {
    "pairwise_aucroc": partial(pairwise_aucroc, scores=raw_logits),
    "aucpr": partial(aucpr, scores=raw_logits),
}
ADVANCED: dict[str, dict[str, Loss]] = {
    "resnet32": {"large_margin": partial(large_margin_softmax, margin=2)},
    "small_convnet": _RANKING,
}
"""Losses closer to the metric, by network and name; the last one is what MetricOpt is combined with."""

RATES = {"sgd": 1.0, "adam": 0.05}
"""Learning rates of paths over SGD and over Adam.

Chosen by the gain in AUCPR on search images, small_convnet, seed 100, 300 queries: SGD .1, .3, 1, 3 gave .0006, .0022,
.0046, -.1371; Adam .02, .05, .15, .5 gave .0203, .0403, -.2226, -.5211. A weight of 4 of the metric lost throughout.
"""


def on_both(names: Iterable[str]) -> dict[str, tuple[str, bool]]:
    """Rows of what is done on phi and, a second row, on weights: which it is, and whether on weights.

    Example:
        >>> on_both(["aucpr"])
        {'aucpr': ('aucpr', False), 'aucpr_weights': ('aucpr', True)}
    """
    return {f"{name}{'_weights' * weights}": (name, weights) for name in names for weights in (False, True)}


OF_THE_PAPER = on_both(["moew", "ala", "rambo"])
"""Rivals of the paper's own tables."""


OURS = ("metricopt", "metricopt_labels", "metricopt_advanced", "optimize")
"""Rows that return the original unless an acceptance test says that what they found is better."""


LEARNED = ("metricopt_learned", "metricopt_learned_advanced")
"""Rows of the optimizer that is learnt with the value function, with cross-entropy and with the advanced loss."""


@dataclass(frozen=True)
class Proposal:
    """What a method proposes.

    Attributes:
        phi: The vector, (dim,).
        queries: Metric queries it took.
        rank_correlation: Of a value function with observations it had not seen; None for a method without one.
        held: The original against it on the rows that accept, if these have chosen it.
        where: The problem whose phi it is, if it has an adapter of its own, or whose network, if it is another one.
    """

    phi: Tensor
    queries: int
    rank_correlation: float | None = None
    held: Comparison | None = None
    where: Problem | None = None


@final
class Bench:
    """A problem with the losses its methods follow; what several methods need is computed once."""

    def __init__(
        self, problem: Problem, budget: Budget, advanced: dict[str, Loss], paces: Mapping[str, Pace] | None = None
    ) -> None:
        """A bench.

        Args:
            problem: The problem.
            budget: What its methods may spend.
            advanced: Losses closer to the metric, by name.
            paces: Of published rivals and of losses, by row, where it is not their own; may be changed between rows.
        """
        self.problem, self.budget, self.advanced, self.paces = problem, budget, advanced, paces or {}

    @staticmethod
    def rows(advanced: dict[str, Loss]) -> list[str]:
        """Names of the rows of a table with these advanced losses, in their order."""
        before, after = ["ce", "loss_only"], ["loss_dense", "bias_temperature", "cma_es", *OF_THE_PAPER]
        staged = ["metricopt_sgd", "metricopt_adam", "metricopt_adam_advanced", *LEARNED]
        return [*before, *on_both(advanced), *after, *PRESETS, *staged, *OURS]

    @staticmethod
    def losses(advanced: dict[str, Loss]) -> list[str]:
        """Names of the rows that no rival and no search makes: the original, losses, and tuning of outputs."""
        return ["ce", *on_both(advanced), "bias_temperature"]

    @property
    def seed(self) -> int:
        """Seed of everything random."""
        return self.problem.seed

    @cached_property
    def methods(self) -> "dict[str, Callable[[], Proposal]]":
        """What computes each of the `rows`."""
        last = list(self.advanced.values())[-1]
        losses = {row: partial(self.loss, row) for row in on_both(self.advanced)}
        published = {row: partial(self.published, row) for row in OF_THE_PAPER}
        return {
            "ce": lambda: Proposal(torch.zeros(self.problem.task().dim), 0),
            "loss_only": partial(self.rival, BASELINES["loss_only"]),
            **losses,
            "loss_dense": partial(self.rival, BASELINES["loss_dense"]),
            "bias_temperature": self.bias_temperature,
            "cma_es": partial(self.rival, BASELINES["cma_es"]),
            **published,
            "metricopt_paper": self.paper,
            "metricopt_paper_advanced": partial(self.paper, loss=last),
            "metricopt_letter": partial(self.paper, letter=True),
            "metricopt_sgd": partial(self.two_stages, "sgd"),
            "metricopt_adam": partial(self.two_stages, "adam"),
            "metricopt_adam_advanced": partial(self.two_stages, "adam", loss=last),
            "metricopt_learned": self.learned,
            "metricopt_learned_advanced": partial(self.learned, loss=last),
            "metricopt": self.search,
            "metricopt_labels": partial(self.search, labels=True),
            "metricopt_advanced": partial(self.search, loss=last),
            "optimize": self.optimize,
        }

    def rival(self, rival: Baseline, *, weights: bool = False) -> Proposal:
        """A registered rival on phi or on weights."""
        where = self.weights if weights else self.problem
        oracle = where.oracle(queries=self.budget.queries, loss=cross_entropy, labels_visible=rival.needs_labels)
        outcome = rival.run(oracle, queries=self.budget.queries, seed=self.seed)
        return Proposal(outcome.phi, oracle.ledger.used, where=where)

    def loss(self, row: str) -> Proposal:
        """A loss closer to the metric, on phi or on weights, without a query: where its path ends."""
        name, weights = on_both(self.advanced)[row]
        where, pace = self.weights if weights else self.problem, self.paces.get(row, LOSS)
        task = where.task(loss=self.advanced[name])
        path = loss_path(task, train_batches(task, self.seed), steps=pace.steps, lr=pace.lr)
        return Proposal(path[-1], 0, where=where)

    def published(self, row: str) -> Proposal:
        """A rival of the paper's own tables, at its pace."""
        name, weights = OF_THE_PAPER[row]
        return self.rival(PUBLISHED[name].at(self.paces.get(row)), weights=weights)

    def bias_temperature(self) -> Proposal:
        """A logit bias for each class and one temperature, by coordinate search with shrinking offsets."""
        oracle = self.problem.oracle(queries=self.budget.queries)
        axes = shift_axes(oracle.probe)
        # All output scales at once are a temperature. They stand before the shifts, as many.
        scales = axes.roll(-len(axes), 1).sum(0, keepdim=True)
        best = Incumbent(oracle, queries=self.budget.queries)
        search_shifts(best, torch.cat([axes, 0.5 * scales]), queries=best.left)
        return Proposal(best.phi, oracle.ledger.used)

    def paper(self, *, loss: Loss = cross_entropy, letter: bool = False) -> Proposal:
        """The paper's two stages with its adapter alone: the end of the best path, whatever it is worth."""
        stages = self.budget.paper
        if letter:
            stages = stages.trained_by(PAPER_LETTER.training)
        oracle = self.literal.oracle(queries=self.budget.queries, loss=loss)
        learnt = learn(oracle, queries=self.budget.queries, seed=self.seed, stages=stages)
        found = follow(oracle, learnt, seed=self.seed, stages=stages)
        return Proposal(found.phi, oracle.ledger.used, learnt.health.rank_correlation, where=self.literal)

    @cached_property
    def literal(self) -> Problem:
        """The problem with the paper's own adapter: FiLM alone."""
        adapters = (part for part in self.problem.adapter.parts if isinstance(part, FiLM))
        return replace(self.problem, adapter=next(adapters))

    @cached_property
    def weights(self) -> Problem:
        """The problem with weights in place of phi."""
        return replace(self.problem, adapter=self.budget.weights)

    def two_stages(self, optimizer: str, *, loss: Loss = cross_entropy) -> Proposal:
        """MetricOpt as in the paper, with our remedies against collapse; the last two queries say if it helped."""
        stages = replace(self.budget.stages, optimizer=optimizer, lr=RATES[optimizer])
        found = self._staged(stages, loss)
        pair = torch.stack([torch.zeros_like(found.phi), found.phi])
        before, after = self.problem.oracle(queries=2).observe(pair).tolist()
        return replace(found, phi=pair[int(after < before)], queries=found.queries + 2)

    def _staged(self, stages: Stages, loss: Loss) -> Proposal:
        oracle = self.problem.oracle(queries=self.budget.queries, loss=loss)
        learnt = learn_value_function(oracle, queries=self.budget.queries - 2, seed=self.seed, stages=stages)
        phi = finetune(oracle.task, learnt.value, seed=self.seed, stages=stages).phi
        return Proposal(phi, oracle.ledger.used, learnt.health.rank_correlation)

    def learned(self, *, loss: Loss = cross_entropy) -> Proposal:
        """The supplement's optimizer with FiLM alone, meta-trained on this problem: where its best path ends."""
        made = own_run(self.literal, self.budget.learned, steps=self.budget.paper.steps, loss=loss)
        queries = made.trained.queries + made.queries
        return Proposal(made.found.path[-1], queries, made.correlation, where=self.literal)

    def search(self, *, loss: Loss = cross_entropy, labels: bool = False) -> Proposal:
        """MetricOpt by default: loss finetuning, output shifts, and a Gaussian process as the value function."""
        oracle = self.problem.oracle(queries=self.budget.queries, loss=loss, labels_visible=labels)
        recipe = self.budget.recipe
        outcome, correlation = propose(oracle, queries=self.budget.queries, recipe=recipe, seed=self.seed)
        judge = Judge(self.problem.model, self.problem.accept, seed=self.seed)
        phi, held = judge.keep_best(self.problem.metric, outcome.rungs())
        return Proposal(phi, oracle.ledger.used, correlation, held)

    def optimize(self) -> Proposal:
        """`optimize` as a user calls it with labelled validation images: it finetunes weights on them, fold by fold."""
        problem = self.problem
        labelled = joined(problem.search, problem.accept)
        result = optimize(
            problem.net,
            metric=problem.metric,
            train=(problem.train.inputs, problem.train.targets),
            val=(labelled.inputs, labelled.targets),
            loss=problem.loss,
            queries=self.budget.queries,
            seed=self.seed,
            effort=self.budget.effort,
            progress=False,
        )
        found = replace(problem, net=result.merge(), adapter=OutputAffine())
        return Proposal(torch.zeros(found.task().dim), result.ledger.used, held=result.comparison, where=found)
