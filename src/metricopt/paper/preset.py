"""The paper's recipe as a preset: its adapter, its two stages, and a guided rate found by a few queries."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from metricopt.adapters import Adapter, DynamicBias, FiLM
from metricopt.core.errors import BudgetError, MetricOptWarning
from metricopt.paper.settings import PAPER, PAPER_LETTER, Stages
from metricopt.paper.stages import LearntValue, finetune, learn_value_function, rates_to_try
from metricopt.task.oracle import Oracle

PaperPreset = Literal["paper", "paper-letter"]
Preset = Literal["default", PaperPreset]

PAPER_VERSION = 103
"""To be bumped with any change of what the presets find; records name the version they were made by."""

PATHS = 4
"""That stage 2 walks, a query each, besides one about the original."""

ENDS = 1 + PATHS
"""Queries of stage 2."""

_FARTHER = 10**0.5


class Followed(NamedTuple):
    """What stage 2 found.

    Attributes:
        phi: The end of the best path, (dim,), whatever it is worth beside the original.
        rate: Its rate.
        reach: How far it was meant to lead, in units of how far the first phi of a task is from 0.
        costs: Of the original, then of the end of every path, in the order in which they were walked.
    """

    phi: Tensor
    rate: float
    reach: float
    costs: Tensor


def paper_adapter(net: nn.Module) -> Adapter:
    """The paper's: FiLM of d = 128 in networks of convolutions, dynamic biases of d = 16 in all others.

    Example:
        >>> paper_adapter(nn.Linear(2, 1))
        DynamicBias(dim=16, ...)
    """
    return FiLM(dim=128) if has_convolutions(net) else DynamicBias(dim=16)


def paper_stages(preset: PaperPreset, net: nn.Module) -> Stages:
    """Its stages: T = 200 and K = 10 for networks of convolutions, T = 50 and K = 3 for all others.

    Example:
        >>> paper_stages("paper", nn.Conv2d(1, 1, 1)).steps, paper_stages("paper-letter", nn.Linear(2, 1)).training.norm
        (200, 'batch')
    """
    stages = {"paper": PAPER, "paper-letter": PAPER_LETTER}[preset]
    return replace(stages, steps=200, observations=10) if has_convolutions(net) else stages


def has_convolutions(net: nn.Module) -> bool:
    """Whether any of its layers is a convolution.

    Example:
        >>> has_convolutions(nn.Sequential(nn.Conv1d(1, 1, 1)))
        True
    """
    return any(isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d) for module in net.modules())


def check_enough(preset: PaperPreset, stages: Stages, queries: int) -> None:
    """Raise unless the queries pay for 4 trajectories and the ends of the paths.

    Example:
        >>> check_enough("paper", PAPER, 5)
        Traceback (most recent call last):
        metricopt.core.errors.BudgetError: the paper preset was given 5 metric queries; expected at least 17, ...
    """
    least = stages.least_queries + ENDS
    if queries < least:
        raise BudgetError(
            f"the {preset} preset was given {queries} metric queries; expected at least {least}, for "
            f"{stages.least_queries // stages.queries_a_task} trajectories of {stages.queries_a_task} observations and "
            f"{ENDS} at the end: grant more, or use the default preset"
        )


def warn_of_the_letter() -> None:
    """Say what is known of the text to the letter."""
    warnings.warn(
        "preset='paper-letter' is the paper's text to the letter; its value function learnt next to nothing of the "
        "metric on most that was tried (docs/paper_recipe.md): use preset='paper', or the default",
        MetricOptWarning,
        stacklevel=2,
    )


def learn(oracle: Oracle, *, queries: int, seed: int, stages: Stages) -> LearntValue:
    """Stage 1 with all queries but those for the ends of the paths.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> learn(Oracle(QuadraticTask(dim=3)), queries=125, seed=0, stages=Stages(rounds=1)).trajectory.phi.shape
        torch.Size([24, 50, 3])
    """
    return learn_value_function(oracle, queries=queries - ENDS, seed=seed, stages=stages)


def follow(oracle: Oracle, learnt: LearntValue, *, seed: int, stages: Stages) -> Followed:
    """Stage 2 from phi = 0 at rates that answers choose: farther as long as that is better, less far otherwise.

    Which rate leads anywhere differs by orders of magnitude between problems: where a value function is right, paths
    thirty times as long as the first phi of a task is from 0 were best, where it is wrong, the shortest.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> oracle, stages = Oracle(QuadraticTask(dim=3)), Stages(rounds=1)
        >>> found = follow(oracle, learn(oracle, queries=105, seed=0, stages=stages), seed=0, stages=stages)
        >>> oracle.ledger.used, bool(found.costs.min() < found.costs[0])
        (105, True)
    """
    task, value = oracle.task, learnt.value
    (unit,) = rates_to_try(task, value, stages, reaches=(1.0,), seed=seed)
    ends: dict[float, Tensor] = {}

    def cost(reach: float) -> float:
        ends[reach] = finetune(task, value, seed=seed, stages=replace(stages, guided_lr=reach * unit)).phi
        return _asked(oracle, ends[reach])

    before = _asked(oracle, torch.zeros(oracle.dim))
    found = walked(cost, before, paths=PATHS)
    best = min(found, key=found.__getitem__)
    return Followed(ends[best], best * unit, best, torch.tensor([before, *found.values()], dtype=torch.float64))


def walked(cost: Callable[[float], float], before: float, *, paths: int) -> dict[float, float]:
    """Costs by reach, in the order asked: from 1 on to the better side, by factors of the root of 10, then between.

    As long as no path is better than none, whose cost was `before`, the next one is shorter: a value function that
    leads astray is not followed farther because that is a little less bad.

    Example:
        >>> [round(reach, 2) for reach in walked(lambda reach: -reach, 0.0, paths=4)]
        [1.0, 3.16, 10.0, 31.62]
        >>> [round(reach, 2) for reach in walked(lambda reach: abs(reach - 4), 4.0, paths=4)]
        [1.0, 3.16, 10.0, 5.62]
        >>> [round(reach, 2) for reach in walked(lambda reach: 1 / reach, 0.0, paths=3)]
        [1.0, 0.32, 0.1]
    """
    known = {1.0: cost(1.0)}
    while len(known) < paths:
        reaches = sorted(known)
        at = reaches.index(min(known, key=known.__getitem__))
        better = known[reaches[at]] < before
        if better and at == len(reaches) - 1:
            reach = reaches[-1] * _FARTHER
        elif not better or at == 0:
            reach = reaches[0] / _FARTHER
        else:
            reach = (reaches[at] * reaches[at + 1]) ** 0.5
        known[reach] = cost(reach)
    return known


def _asked(oracle: Oracle, phi: Tensor) -> float:
    """The answer about one phi; a failed one is worse than any other."""
    return float(oracle.observe(phi[None], stage="finetuned").nan_to_num(nan=torch.inf))
