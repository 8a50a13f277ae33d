"""The search of an adapter's phi, from the first query to a proposal: by the default recipe or by the paper's."""

from collections.abc import Callable

import torch
from torch import Tensor

from metricopt.api.transfer import Transfer
from metricopt.api.watching import Watch
from metricopt.core.records import Outcome
from metricopt.core.seeding import stream
from metricopt.paper.preset import (
    PaperPreset,
    Preset,
    check_enough,
    follow,
    learn,
    paper_stages,
    warn_of_the_letter,
)
from metricopt.search import Recipe, walk
from metricopt.search.starts import loss_starts
from metricopt.task.oracle import Oracle
from metricopt.task.supervised import SupervisedTask


def propose(
    oracle: Oracle,
    *,
    queries: int,
    preset: Preset = "default",
    recipe: Recipe | None = None,
    seed: int = 0,
    watching: Watch | None = None,
    transfer: Transfer | None = None,
) -> tuple[Outcome, float]:
    """The search alone: a proposal and the rank correlation of the value function with unseen observations.

    `watching` hears of the first answer, about the original model, and bounds what comes before the second. `transfer`
    has what the search begins with, and what it leaves.

    Example:
        >>> from torch import nn
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> from metricopt.data.dataset import Examples
        >>> from metricopt.metrics import mcr
        >>> x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
        >>> data = Examples(x, (x[:, 0] > 0.5).long())
        >>> model = adapt(nn.Linear(2, 1), OutputAffine())
        >>> oracle = Oracle(SupervisedTask(model, metric=mcr(), train=data, search=data))
        >>> outcome, correlation = propose(oracle, queries=20, recipe=Recipe(start_steps=20))
        >>> outcome.phi.shape, oracle.ledger.used
        (torch.Size([2]), 20)
    """
    if preset != "default":
        return _paper(oracle, preset, queries=queries, seed=seed, watching=watching)
    recipe = Recipe() if recipe is None else recipe

    def starts() -> Tensor:
        if watching is not None:
            watching.answered()
        found = torch.zeros(0, oracle.dim)
        if recipe.starts:
            found = _starts(oracle, recipe, seed=seed, afford=None if watching is None else watching.affordable)
        oracle.ledger.pulse.phase("search", total=queries)
        return found

    brought, keepsake = (None, None) if transfer is None else (transfer.brought, transfer.keepsake)
    found = walk(oracle, queries=queries, seed=seed, starts=starts, recipe=recipe, value=brought, keepsake=keepsake)
    return found.outcome, found.rank_correlation


def _starts(oracle: Oracle, recipe: Recipe, *, seed: int, afford: Callable[[float, int], int] | None) -> Tensor:
    pulse = oracle.ledger.pulse
    pulse.phase("loss finetuning", total=recipe.start_steps)
    return loss_starts(
        oracle.probe,
        steps=recipe.start_steps,
        lr=recipe.start_lr,
        generator=stream(seed, "starts"),
        afford=afford,
        beat=pulse.beat,
    )


def _paper(
    oracle: Oracle, preset: PaperPreset, *, queries: int, seed: int, watching: Watch | None
) -> tuple[Outcome, float]:
    """Trajectories, value function, guided finetuning: the original and the ends of the paths are queried last."""
    assert isinstance(oracle.task, SupervisedTask)
    stages = paper_stages(preset, oracle.task.model.net)
    check_enough(preset, stages, queries)
    if preset == "paper-letter":
        warn_of_the_letter()
    if watching is not None:
        watching.answered()
    oracle.ledger.pulse.phase("trajectories")
    learnt = learn(oracle, queries=queries, seed=seed, stages=stages)
    oracle.ledger.pulse.phase("guided finetuning")
    found = follow(oracle, learnt, seed=seed, stages=stages)
    return Outcome(found.phi, ((oracle.ledger.used, found.phi),)), learnt.health.rank_correlation
