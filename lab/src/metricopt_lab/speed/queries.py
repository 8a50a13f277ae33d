"""Figure (q): how the default search's time grows with its queries, and what it takes beside CMA-ES."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import nn

from metricopt.adapters import FiLM, OutputAffine, adapt
from metricopt.api.propose import propose
from metricopt.core.seeding import derived_seed
from metricopt.losses import cross_entropy
from metricopt.metrics import f_beta, mcr
from metricopt.run.ledger import QueryLedger
from metricopt.search import Recipe
from metricopt.task.oracle import Oracle
from metricopt.task.supervised import SupervisedTask
from metricopt_lab.rivals import BASELINES
from metricopt_lab.speed.figures import FIGURES, Effort, Figure
from metricopt_lab.speed.problems import images, tabular_task
from metricopt_lab.speed.timing import exponent, interleaved, quartiles

COUNTS = (500, 1000, 2000, 5000)


@FIGURES.add("q")
def of_queries(effort: Effort) -> list[Figure]:
    """The exponent from 500 to 5,000 queries, and ratios to CMA-ES.

    Example:
        >>> figures = of_queries(Effort(repeats=1, quick=True))
        >>> [figure.what.partition(":")[0] for figure in figures]
        ['exponent of time', 'default search / CMA-ES', 'default search / CMA-ES', 'default search / CMA-ES']
    """
    counts = effort.of(COUNTS, (20, 40))
    return [_exponent(effort, counts), *_beside_cma(effort)]


def _exponent(effort: Effort, counts: tuple[int, ...]) -> Figure:
    """All counts in one search: the time of the first so many queries, with all that was computed between them."""
    rounds = max(1, effort.repeats // 15)
    task = _table(effort)
    each = [_seconds_until(task, counts, effort, seed) for seed in range(rounds)]
    median, low, high = quartiles(np.array([exponent(list(counts), taken) for taken in each]))
    middle = np.median(np.array(each), 0)
    note = ", ".join(f"{count:,}: {taken:.3g} s" for count, taken in zip(counts, middle, strict=True))
    what = "exponent of time: default search, A9A MLP, FiLM d = 32 and output affine, in queries"
    return Figure("q", what, median, low, high, rounds, 1.2, note=note)


def _seconds_until(task: SupervisedTask, counts: tuple[int, ...], effort: Effort, seed: int) -> list[float]:
    taken: dict[int, float] = {}
    ledger = QueryLedger(budget=counts[-1])
    began = time.process_time()

    def note(current: QueryLedger) -> None:
        for count in counts:
            if len(current.queries) >= count:
                taken.setdefault(count, time.process_time() - began)

    ledger.listener = note
    propose(Oracle(task, ledger), queries=counts[-1], recipe=_recipe(effort), seed=seed)
    return [taken[count] for count in counts]


def _beside_cma(effort: Effort) -> list[Figure]:
    table, pictures = _table(effort), _pictures(effort)
    recipe = _recipe(effort)
    return [
        _ratio(effort, "A9A MLP", table, effort.of(500, 20), recipe, None),
        _ratio(effort, "small ConvNet", pictures, effort.of(150, 20), recipe, None),
        _ratio(
            effort, "small ConvNet, no loss starts", pictures, effort.of(150, 20), replace(recipe, starts=False), 1.3
        ),
    ]


def _ratio(
    effort: Effort, name: str, task: SupervisedTask, queries: int, recipe: Recipe, target: float | None
) -> Figure:
    rounds = max(1, effort.repeats // 5)
    work = {"search": partial(_search, task, queries, recipe), "rival": _rival(task, queries)}
    taken = interleaved(work, rounds=rounds, warm_up=0)
    what = f"default search / CMA-ES: {queries} queries, {name}, {task.rows:,} rows, FiLM d = 32 and output affine"
    seconds = {side: float(np.median(some)) for side, some in taken.items()}
    note = f"{seconds['search']:.3g} s / {seconds['rival']:.3g} s: starts, forward passes, answers and choosing"
    return Figure("q", what, *quartiles(taken["search"] / taken["rival"]), rounds, target, note=note)


def _search(task: SupervisedTask, queries: int, recipe: Recipe) -> object:
    return propose(Oracle(task), queries=queries, recipe=recipe)


def _recipe(effort: Effort) -> Recipe:
    return Recipe(start_steps=1, candidates=20) if effort.quick else Recipe()


def _rival(task: SupervisedTask, queries: int) -> Callable[[], object]:
    return lambda: BASELINES["cma_es"].run(Oracle(task), queries=queries, seed=0)


def _table(effort: Effort) -> SupervisedTask:
    train, search = effort.of((30_000, 4_000), (300, 100))
    return tabular_task(adapter=FiLM(dim=32) + OutputAffine(), train=train, search=search, metric=f_beta())


def _pictures(effort: Effort) -> SupervisedTask:
    rows = effort.of(2_000, 20)
    train, search = images(rows), images(rows, seed=1)
    model = adapt(_convnet(), FiLM(dim=32) + OutputAffine(), example=train.inputs[:2])
    return SupervisedTask(model, loss=cross_entropy, metric=mcr(), train=train, search=search)


def _convnet() -> nn.Module:
    """Three convolutions with BatchNorm, a million products an image."""
    sizes = (3, 20, 40, 80)
    # Layers draw their first weights from torch's global state, which is none of ours to move.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(0, "small ConvNet"))
        blocks = [
            nn.Sequential(nn.Conv2d(before, after, 3, stride=2, padding=1), nn.BatchNorm2d(after), nn.ReLU())
            for before, after in pairwise(sizes)
        ]
        return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(80, 10)).eval()
