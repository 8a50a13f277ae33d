"""MetricOpt (learned) as a run of its own: meta-trained on the run's network and adapter, then used there.

The paper meta-tests where it has meta-trained, with new mini-batches. So does this; the rule that sees all of phi is of
use nowhere else.
"""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import cast

from torch import Tensor

from metricopt.core.errors import FlatValueWarning
from metricopt.losses import Loss
from metricopt.paper.learned.meta_training import MetaTrained, meta_train
from metricopt.paper.learned.settings import MetaTraining
from metricopt.paper.learned.signals import Rule
from metricopt.paper.learned.whole_rule import WholeRule
from metricopt.paper.training import Training
from metricopt.task.oracle import Oracle
from metricopt_lab.figures.film_paths import Tuned, tuned
from metricopt_lab.optimizers.paths import learned_path
from metricopt_lab.problems import Problem

OWN_VERSION = 2
"""Of what is meta-trained here; to be bumped with any change of its results."""

MULTIPLES = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
"""Of the rate that the rule was trained with, tried at meta-test: as many as SGD and Adam try. Higher ones got lost."""

_BATCH = 32  # images of a mini-batch in meta-training; a quarter of what finetuning has, for the sake of time

_SMALL = MetaTraining(
    rule=WholeRule(lr=0.03),
    iterations=25,
    steps=100,
    observations=8,
    metric_every=10,
    std=0.01,
    meta_lr=0.01,
    start_std=1.0,
    value=Training(steps=50),
)
OWN: Mapping[str, MetaTraining] = MappingProxyType(
    {
        "smoke": replace(_SMALL, iterations=3, tasks=2, steps=10, observations=5, warm_up=1, value=Training(steps=20)),
        "small": _SMALL,
        "paper": replace(_SMALL, iterations=5_000, steps=200, observations=10),
    }
)
"""Meta-training by scale. Chosen on the images that accept of seeds 101 and 102, which no table reports.

1 - AUCPR there from .294 and .300: 12 iterations .260 and .278, 25 iterations .259 and .270.
"""


@dataclass(frozen=True)
class OwnRun:
    """What meta-training and the finetuning after it gave.

    Attributes:
        found: The path at the rate whose end was best on the search images.
        trained: The optimizer, the value function that was dropped, and what each iteration did.
        queries: Metric queries at meta-test: what the rule was told, and one a rate.
    """

    found: Tuned
    trained: MetaTrained
    queries: int

    @property
    def correlation(self) -> float | None:
        """Rank correlation of the value function with the last observations, before it learnt; None if not known."""
        last = self.trained.history[-1].correlation
        return None if math.isnan(last) else last


def own_run(problem: Problem, settings: MetaTraining, *, steps: int, loss: Loss | None = None) -> OwnRun:
    """Meta-train on a problem, drop the value function, and finetune from phi = 0 by the learned optimizer.

    Args:
        problem: Whose search images are queried; its seed is that of everything.
        settings: Of Algorithm S1; a rule that sees all of phi is fitted to the problem's size.
        steps: Of the finetuning.
        loss: What is followed; None for the problem's own.
    """
    # The problem's own task, with what is cached of its network: another problem would compute that again.
    task = problem.task(loss=loss)
    task.batch_size = min(_BATCH, task.batch_size)
    training = Oracle(task)
    settings = replace(settings, rule=_fitted(settings.rule, training.dim))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatValueWarning)  # the correlation is in the record
        trained = meta_train(training, settings, seed=problem.seed)
    oracle = problem.oracle(queries=None, loss=loss)

    def path_at(rate: float) -> Tensor:
        told = partial(oracle.observe, stage="told") if settings.weight else None
        return learned_path(
            oracle.task, trained.learned, lr=rate, steps=steps, seed=problem.seed, metric=told,
            every=settings.metric_every,
        )  # fmt: skip

    found = tuned(oracle, path_at, [settings.rule.lr * multiple for multiple in MULTIPLES])
    return OwnRun(found, trained, oracle.ledger.used)


def _fitted(rule: Rule, dim: int) -> Rule:
    """The same rule for so many coordinates; one that all coordinates share is for any."""
    if not isinstance(rule, WholeRule):
        return rule
    whole = cast("WholeRule", rule)  # a protocol is not narrowed to a final class
    return WholeRule(dim, whole.features, whole.hidden, whole.lr)
