"""Which of the finetuned weights, how far, and with which biases: by the metric, on rows that none of them has seen."""

from dataclasses import dataclass

import torch
from torch import Tensor

from metricopt.core.records import Outcome
from metricopt.core.tree import Tree
from metricopt.crossfit.asking import Asking
from metricopt.crossfit.honest import HonestBias
from metricopt.crossfit.settings import CrossFit
from metricopt.task.oracle import Oracle
from metricopt.task.out_of_fold import OutOfFoldTask
from metricopt.task.predictions import Predictions

_LEAST_FOR_BIASES = 12


@dataclass(frozen=True, eq=False)
class Chosen:
    """What out-of-fold rows said.

    Attributes:
        outcome: The phi chosen, with what fewer queries would have given.
        shown: Its predictions of all rows, none by a network or bias that has seen the row.
        cost: Their cost.
    """

    outcome: Outcome
    shown: Tree
    cost: float


def choose(oracle: Oracle, settings: CrossFit, *, kinds: int, original: float, queries: int) -> Chosen:
    """The best mixtures by the metric, then biases for them with the rest of the queries, then the best of those.

    Args:
        oracle: Asks about an out-of-fold task.
        settings: Of the recipe.
        kinds: How many kinds were finetuned.
        original: Cost of the original, which was asked about before.
        queries: How many there are.
    """
    task = oracle.task
    assert isinstance(task, OutOfFoldTask)
    asking, first = Asking(oracle, task, queries=queries), oracle.ledger.used
    options = _options(task, settings, kinds, queries=queries)
    costs = torch.cat([torch.tensor([original], dtype=torch.float64), _mixtures(asking, options)])
    options = torch.cat([torch.zeros(1, task.dim), options])[: len(costs)]
    order = costs.argsort(stable=True).tolist()[: settings.tuned]
    best = order[0]
    incumbents = [(first, options[0]), (oracle.ledger.used, options[best])]
    phi, cost, shown = options[best], float(costs[best]), None
    if task.shifts is not None and task.metric.on != "outputs":
        half_of = _halves(task)
        for place, index in enumerate(order):
            biased = HonestBias(asking, options[index], half_of, float(costs[index]))
            found = biased.search(calls=asking.left // (len(order) - place))
            if found.cost < cost or shown is None:
                phi, cost, shown = biased.phi(found.bias), found.cost, biased.shown(found.halves)
            incumbents.append((oracle.ledger.used, phi))
    if shown is None:
        shown = task.whole_outputs(phi[None])[0] if task.metric.on == "outputs" else task.search_outputs(phi[None])[0]
    return Chosen(Outcome(phi, tuple(incumbents)), shown, cost)


def _options(task: OutOfFoldTask, settings: CrossFit, kinds: int, *, queries: int) -> Tensor:
    """Mixtures of the weights' changes to ask about, (k, dim), as many as leave some queries for biases."""
    wanted = [option for option in settings.options if not any(option[kinds:])]
    most = queries if queries < _LEAST_FOR_BIASES else max(len(wanted) // 3, queries // 3)
    found = torch.zeros(min(len(wanted), most), task.dim)
    for row, option in zip(found, wanted, strict=False):
        row[: len(option)] = torch.tensor(option)
    return found


def _mixtures(asking: Asking, options: Tensor) -> Tensor:
    """Costs of mixtures, computed when they are asked about: their outputs need not fit memory together."""
    task, found = asking.task, []
    for phi in options[: max(0, asking.left)].split(min(asking.at_once, task.members_at_once)):
        if asking.left < 1:
            break
        shown = task.predictions(phi)
        assert isinstance(shown, Predictions)
        found.append(asking.oracle.observe(phi, stage="finetuned weights", shown=shown))
    costs = torch.cat(found) if found else torch.zeros(0, dtype=torch.float64)
    return costs.nan_to_num(nan=torch.inf)


def _halves(task: OutOfFoldTask) -> Tensor:
    assert task.fold_of is not None
    return task.fold_of % 2
