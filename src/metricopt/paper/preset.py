"""The paper's recipe as a preset: its adapter, its two stages, and a guided rate found by a few queries."""

import warnings
from dataclasses import replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from metricopt.adapters import Adapter, DynamicBias, FiLM
from metricopt.core.errors import BudgetError, MetricOptWarning
from metricopt.paper.stages import (
    PAPER,
    PAPER_LETTER,
    LearntValue,
    Stages,
    finetune,
    learn_value_function,
    rates_to_try,
)
from metricopt.task.oracle import Oracle

PaperPreset = Literal["paper", "paper-letter"]
Preset = Literal["default", PaperPreset]

PAPER_VERSION = 101
"""To be bumped with any change of what the presets find; records name the version they were made by."""

REACHES = (0.1, 0.3, 1.0, 3.0)
"""How far stage 2 tries to go: a path and a query each, and one more query about the original."""


class Followed(NamedTuple):
    """What stage 2 found.

    Attributes:
        phi: The end of the best path, (dim,), whatever it is worth beside the original.
        rate: Its rate.
        costs: Of the original, then of the end of every path.
    """

    phi: Tensor
    rate: float
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
    ends = 1 + len(REACHES)
    least = stages.least_queries + ends
    if queries < least:
        raise BudgetError(
            f"the {preset} preset was given {queries} metric queries; expected at least {least}, for "
            f"{stages.least_queries // stages.queries_a_task} trajectories of {stages.queries_a_task} observations and "
            f"{ends} at the end: grant more, or use the default preset"
        )


def warn_of_the_letter() -> None:
    """Say what is known of the text to the letter."""
    warnings.warn(
        "preset='paper-letter' is the paper's text to the letter; on all that was tried its value function is no "
        "better than an untrained one (docs/paper-notes.md): use preset='paper', or the default",
        MetricOptWarning,
        stacklevel=2,
    )


def learn(oracle: Oracle, *, queries: int, seed: int, stages: Stages) -> LearntValue:
    """Stage 1 with all queries but those for the ends of the paths.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> learn(Oracle(QuadraticTask(dim=3)), queries=125, seed=0, stages=PAPER).trajectory.phi.shape
        torch.Size([40, 50, 3])
    """
    return learn_value_function(oracle, queries=queries - 1 - len(REACHES), seed=seed, stages=stages)


def follow(oracle: Oracle, learnt: LearntValue, *, seed: int, stages: Stages) -> Followed:
    """Stage 2 at several rates from phi = 0; queries about the original and the end of each path choose one.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> oracle = Oracle(QuadraticTask(dim=3))
        >>> found = follow(oracle, learn(oracle, queries=305, seed=0, stages=PAPER), seed=0, stages=PAPER)
        >>> oracle.ledger.used, bool(found.costs.min() < found.costs[0])
        (305, True)
    """
    task, value = oracle.task, learnt.value
    rates = rates_to_try(task, value, stages, reaches=REACHES, seed=seed)
    ends = [finetune(task, value, seed=seed, stages=replace(stages, guided_lr=rate)).phi for rate in rates]
    costs = oracle.observe(torch.stack([torch.zeros(oracle.dim), *ends]), stage="finetuned")
    best = int(costs[1:].nan_to_num(nan=torch.inf).argmin())
    return Followed(ends[best], rates[best], costs)
