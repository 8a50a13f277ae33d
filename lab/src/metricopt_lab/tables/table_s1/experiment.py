"""Table S1 of the paper's supplement at the scale a processor allows: Tiny ImageNet in place of ImageNet."""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import final

import torch

from metricopt.core.errors import MetricOptWarning
from metricopt.metrics import Metric, mcr, top_k_error
from metricopt.paper.preset import PAPER_VERSION, follow, learn
from metricopt_lab.cells import EXPERIMENTS, Record, ScaledCell, ScaledExperiment
from metricopt_lab.data.tiny_imagenet import SHA256
from metricopt_lab.figures.film_paths import loss_led_path, tuned
from metricopt_lab.optimizers.own import OWN_VERSION, own_run
from metricopt_lab.problems import Problem
from metricopt_lab.problems.tiny_imagenet import TINY_SCALES, tiny_problem
from metricopt_lab.tables.cifar.methods import BUDGETS, Budget, Proposal
from metricopt_lab.tables.table_s1.text import table_s1_text

METRICS: Mapping[str, Callable[[], Metric]] = {"top1": mcr, "top5": partial(top_k_error, 5)}
"""As errors; the text turns them into accuracies."""

RATES = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
"""Of RMSProp, one query each on the search images."""

RMSPROP_VERSION = 1
"""Of the two rows that are of this table alone; to be bumped with any change of their results."""


@EXPERIMENTS.add("tableS1")
@final
class TableS1(ScaledExperiment[Problem]):
    """The paper's Table S1: top-1 and top-5 accuracy on Tiny ImageNet, by RMSProp, MetricOpt over SGD and learned."""

    scales = tuple(TINY_SCALES)

    def cells(self) -> list[ScaledCell]:
        """Every method for both metrics and each seed."""
        return [
            ScaledCell(self.settings.scale, "tiny_imagenet", "plain", seed, metric, method)
            for seed in range(self.settings.seeds)
            for metric in METRICS
            for method in METHODS
        ]

    def ground(self, first: ScaledCell) -> Problem:
        """The network of a seed."""
        return tiny_problem(mcr(), scale=first.scale, seed=first.seed)

    def measure(self, ground: Problem, cell: ScaledCell) -> Record:
        """Both accuracies on test images, whichever of them was improved."""
        began = time.perf_counter()
        problem = replace(ground, metric=METRICS[cell.metric]())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MetricOptWarning)  # the correlation is in the record
            found = METHODS[cell.method](problem, BUDGETS[cell.scale])
        seconds = time.perf_counter() - began
        errors = {name: float(ground.costs(found.phi[None], "test", metric=make())) for name, make in METRICS.items()}
        return {
            **{f"test_{name}": 1 - error for name, error in errors.items()},
            "queries": found.queries,
            "rank_correlation": found.rank_correlation,
            "seconds": seconds,
            "problem": ground.notes,
            "fingerprint": SHA256,
        }

    def version_of(self, method: str) -> int:
        """Each row has a version of its own."""
        return {"metricopt_paper": PAPER_VERSION, "metricopt_learned": OWN_VERSION}.get(method, RMSPROP_VERSION)

    def text(self, records: Sequence[Record]) -> str:
        """Accuracies beside the published ones, and paired differences."""
        return table_s1_text(records)

    @property
    def pictures(self) -> tuple[str, ...]:
        """None."""
        return ()


def _pretrained(problem: Problem, budget: Budget) -> Proposal:  # noqa: ARG001
    return Proposal(torch.zeros(problem.task().dim), 0)


def _rmsprop(problem: Problem, budget: Budget) -> Proposal:
    oracle, steps = problem.oracle(queries=None), budget.paper.steps

    def path_at(rate: float) -> torch.Tensor:
        return loss_led_path(oracle.task, partial(torch.optim.RMSprop, lr=rate), steps=steps, seed=problem.seed)

    return Proposal(tuned(oracle, path_at, RATES).path[-1], oracle.ledger.used)


def _paper(problem: Problem, budget: Budget) -> Proposal:
    oracle = problem.oracle(queries=budget.queries)
    learnt = learn(oracle, queries=budget.queries, seed=problem.seed, stages=budget.paper)
    found = follow(oracle, learnt, seed=problem.seed, stages=budget.paper)
    return Proposal(found.phi, oracle.ledger.used, learnt.health.rank_correlation)


def _learned(problem: Problem, budget: Budget) -> Proposal:
    made = own_run(problem, budget.learned, steps=budget.paper.steps)
    return Proposal(made.found.path[-1], made.trained.queries + made.queries, made.correlation)


METHODS: Mapping[str, Callable[[Problem, Budget], Proposal]] = {
    "pretrained": _pretrained,
    "rmsprop": _rmsprop,
    "metricopt_paper": _paper,
    "metricopt_learned": _learned,
}
"""Rows by name."""
