"""The rows of Table 6: losses on weights and on phi, tuning of scores, rivals on the same phi, and MetricOpt."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from metricopt.acceptance.comparison import Comparison
from metricopt.acceptance.judge import Judge
from metricopt.adapters.detector import detect
from metricopt.api.learner import learner_of
from metricopt.api.optimize import optimize
from metricopt.api.problem import Problem
from metricopt.api.propose import propose
from metricopt.core.registry import Registry
from metricopt.core.seeding import derived_seed, stream
from metricopt.crossfit import CrossFit, Kind
from metricopt.crossfit.draws import draws_of
from metricopt.crossfit.training import trained
from metricopt.losses.boxes import ap_loss, box_loss
from metricopt.paper.preset import follow, learn
from metricopt.paper.settings import PAPER, Stages
from metricopt.search import Recipe
from metricopt.task.base import Loss
from metricopt.task.supervised import SupervisedTask
from metricopt_lab.problems.detection import Detection
from metricopt_lab.rivals import BASELINES
from metricopt_lab.rivals.descent import loss_path, train_batches
from metricopt_lab.rivals.incumbent import Incumbent

EFFORT = CrossFit(folds=3, epochs=4, batch=8, rates=(5e-4,), kinds=(Kind(balanced=False, mix=0.0),), seconds=1e6)
"""Of finetuning weights: with one rate and one kind no clock decides, and label_finetune has the same of both."""


@dataclass(frozen=True)
class Budget:
    """What a scale grants.

    Attributes:
        queries: Of every method that queries at all.
        steps: Of finetuning on a loss.
        lr: First rate of Adam there.
        effort: Of finetuning weights.
        stages: The paper's two stages.
    """

    queries: int
    steps: int
    lr: float = 0.3
    effort: CrossFit = EFFORT
    stages: Stages = field(default_factory=lambda: replace(PAPER, steps=50, observations=5))


_TRIED = replace(PAPER.once, steps=4, observations=2)

BUDGETS = {
    "smoke": Budget(20, 4, effort=replace(EFFORT, folds=2, epochs=1), stages=_TRIED),
    "small": Budget(40, 40),
    "paper": Budget(
        200, 200, effort=CrossFit(batch=8, seconds=36e3), stages=replace(PAPER, steps=200, observations=10)
    ),
}


@dataclass(frozen=True)
class Proposal:
    """What a method proposes: phi (dim,), or a network whose weights are others; the queries it took.

    With what a value function was worth, if it had one, and the decision, if it made one.
    """

    phi: Tensor
    queries: int
    rank_correlation: float | None = None
    held: Comparison | None = None
    net: nn.Module | None = None


Method = Callable[[Detection, Budget], Proposal]

METHODS: Registry[Method] = Registry("method")
"""The rows of the table, in its order."""


@METHODS.add("frozen")
def frozen(problem: Detection, budget: Budget) -> Proposal:  # noqa: ARG001
    """The detector as it was trained, by cross-entropy and smooth L1."""
    return Proposal(torch.zeros(problem.model.dim), 0)


@METHODS.add("optimize")
def optimize_weights(problem: Detection, budget: Budget) -> Proposal:
    """`optimize` as it is: what is behind the body is finetuned fold by fold, AP50 out of fold chooses and decides."""
    result = optimize(
        problem.model.net,
        metric=problem.metric,
        train=(problem.train.inputs, problem.train.targets),
        val=(problem.labelled.inputs, problem.labelled.targets),
        queries=budget.queries,
        batch_size=budget.effort.batch,
        effort=budget.effort,
        seed=problem.seed,
        progress=False,
    )
    nothing = torch.zeros(problem.model.dim)
    return Proposal(nothing, result.ledger.used, held=result.comparison, net=result.merge())


@METHODS.add("label_finetune")
def label_finetune(problem: Detection, budget: Budget) -> Proposal:
    """The same weights finetuned by the detector's losses on all labelled images, as practitioners do: no metric."""
    given = Problem(
        problem.model.net,
        problem.metric,
        train=problem.train,
        val=problem.labelled,
        example=problem.train.inputs[:1],
        batch_size=budget.effort.batch,
        seed=problem.seed,
        call=detect,
    )
    learner = learner_of(given, "weights", budget.effort, insist=True)
    assert learner is not None
    settings, every = learner.settings, torch.arange(len(problem.labelled))
    draws = draws_of(
        problem.labelled,
        problem.train,
        every,
        settings.kinds[0],
        shown=len(every),
        batch=settings.batch,
        seed=problem.seed,
        member="all",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(problem.seed, "label finetune"))
        net = trained(learner, draws, epochs=settings.epochs, lr=settings.rates[0])
    return Proposal(torch.zeros(problem.model.dim), 0, net=net.eval())


@METHODS.add("score_tuning")
def score_tuning(problem: Detection, budget: Budget) -> Proposal:
    """A bias for the score of each class, by coordinate search: what thresholds of scores can do, and more."""
    return _rival(problem, budget, name="post_shift")


@METHODS.add("loss_only")
def loss_only(problem: Detection, budget: Budget) -> Proposal:
    """Finetuning of phi on the training images by the second stage's losses, without a query."""
    task = problem.oracle(queries=0).task
    return Proposal(loss_path(task, train_batches(task, problem.seed), steps=budget.steps, lr=budget.lr)[-1], 0)


def _by_labels(problem: Detection, budget: Budget, *, loss: Loss) -> Proposal:
    task = problem.oracle(queries=0, labels_visible=True, loss=loss).task
    assert isinstance(task, SupervisedTask)
    path = loss_path(task, _label_batches(task, problem.seed), steps=budget.steps, lr=budget.lr)
    return Proposal(path[-1], 0)


def _label_batches(task: SupervisedTask, seed: int) -> Iterator[Any]:
    return task.mixed_batches([(task.search, "plain", 1)], 1, stream(seed, "baseline", "label batches"))


METHODS.add("label_loss")(partial(_by_labels, loss=box_loss))
METHODS.add("label_ap_loss")(partial(_by_labels, loss=ap_loss))


@METHODS.add("loss_dense")
def loss_dense(problem: Detection, budget: Budget) -> Proposal:
    """Finetuning on the training images, AP50 asked after every step and the best step kept."""
    oracle = problem.oracle(queries=budget.queries)
    best = Incumbent(oracle, queries=budget.queries)
    best.observe(loss_path(oracle.task, train_batches(oracle.task, problem.seed), steps=best.left, lr=budget.lr)[1:])
    return Proposal(best.outcome().phi, oracle.ledger.used)


def _rival(problem: Detection, budget: Budget, *, name: str) -> Proposal:
    oracle = problem.oracle(queries=budget.queries)
    outcome = BASELINES[name].run(oracle, queries=budget.queries, seed=problem.seed)
    return Proposal(outcome.phi, oracle.ledger.used)


METHODS.add("cma_es")(partial(_rival, name="cma_es"))
METHODS.add("snes")(partial(_rival, name="snes"))


@METHODS.add("metricopt_paper")
def metricopt_paper(problem: Detection, budget: Budget) -> Proposal:
    """MetricOpt by the paper's two stages: trajectories, a value network, guided finetuning."""
    oracle = problem.oracle(queries=budget.queries)
    learnt = learn(oracle, queries=budget.queries, seed=problem.seed, stages=budget.stages)
    phi = follow(oracle, learnt, seed=problem.seed, stages=budget.stages).phi
    return Proposal(phi, oracle.ledger.used, learnt.health.rank_correlation)


def _search(problem: Detection, budget: Budget, *, labels: bool, loss: Loss = box_loss) -> Proposal:
    oracle = problem.oracle(queries=budget.queries, labels_visible=labels, loss=loss)
    recipe = Recipe(start_steps=budget.steps, start_lr=budget.lr)
    outcome, correlation = propose(oracle, queries=budget.queries, recipe=recipe, seed=problem.seed)
    judge = Judge(problem.model, problem.accept, seed=problem.seed)
    for phi in (torch.zeros_like(outcome.phi), *outcome.rungs()):
        judge.know(phi, problem.found(phi, problem.accept), whole=True)
    phi, held = judge.keep_best(problem.metric, outcome.rungs())
    return Proposal(phi, oracle.ledger.used, correlation, held)


METHODS.add("metricopt")(partial(_search, labels=False))
METHODS.add("metricopt_labels")(partial(_search, labels=True))
METHODS.add("metricopt_labels_ap")(partial(_search, labels=True, loss=ap_loss))

OURS = ("optimize", "metricopt", "metricopt_labels", "metricopt_labels_ap")
"""Those with an acceptance test built in: what they return is the original unless the proposal was accepted."""

MAIN = ("frozen", "optimize", "label_finetune", "score_tuning", "loss_only")
"""Those that the claims are about."""

LOSSES = ("frozen", "label_finetune", "loss_only", "label_loss", "label_ap_loss")
"""Those that no rival and no search makes."""
