"""The five ways: the default search, the paper's preset, three rivals; each gives phi and what it was answered."""

from collections.abc import Callable

import torch
from tests.replay.problems import Problem
from torch import Tensor

import metricopt as mo
from metricopt.api.adapted import adapted
from metricopt.data.dataset import Examples
from metricopt.metrics import as_metric
from metricopt.task.oracle import Oracle
from metricopt.task.supervised import SupervisedTask
from metricopt_lab.rivals import BASELINES

QUERIES = 45


def default(problem: Problem) -> tuple[Tensor, list[float]]:
    """`optimize` with its own search of an adapter."""
    return _optimized(problem, "default")


def paper(problem: Problem) -> tuple[Tensor, list[float]]:
    """`optimize` with the paper's preset."""
    return _optimized(problem, "paper")


def _optimized(problem: Problem, preset: str) -> tuple[Tensor, list[float]]:
    result = mo.optimize(
        problem.net,
        loss=problem.loss,
        metric=problem.metric,
        train=problem.train,
        val=problem.val,
        keep=problem.keep,
        queries=QUERIES,
        preset=preset,  # pyright: ignore[reportArgumentType]
        batch_size=64,
        seed=3,
        tune="adapter",
        confidence=0.95,
    )
    return torch.stack([result.proposal, result.model.phi.detach()]), [q.cost for q in result.ledger.queries]


def _rival(name: str) -> Callable[[Problem], tuple[Tensor, list[float]]]:
    def run(problem: Problem) -> tuple[Tensor, list[float]]:
        train, val = Examples(*problem.train), Examples(*problem.val)
        model = adapted(problem.net, None, example=train.inputs[:2], seed=3)
        task = SupervisedTask(model, loss=problem.loss, metric=as_metric(problem.metric), train=train, search=val)
        oracle = Oracle(task, keep=problem.keep)
        outcome = BASELINES[name].run(oracle, queries=QUERIES, seed=3)
        return outcome.phi[None], [query.cost for query in oracle.ledger.queries]

    return run


WAYS: dict[str, Callable[[Problem], tuple[Tensor, list[float]]]] = {
    "default": default,
    "paper": paper,
    **{name: _rival(name) for name in ("cma_es", "post_shift", "snes")},
}
