"""The default search: start where loss finetuning ends, then give the queries to whichever arm gains more from them."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from metricopt.core.errors import BudgetError, MetricError
from metricopt.core.records import Outcome
from metricopt.core.seeding import stream
from metricopt.search.archive import Archive
from metricopt.search.arms import Arm
from metricopt.search.evolution_arm import EvolutionArm
from metricopt.search.recipe import Recipe
from metricopt.search.starts import input_start
from metricopt.search.threshold_arm import ThresholdArm
from metricopt.search.transfer.bringing import Bringing
from metricopt.search.transfer.keepsake import Keepsake
from metricopt.search.value_arm import ValueArm
from metricopt.task.oracle import Oracle

_PATIENCE = 100  # pulls without a query after which an arm has nothing more to ask
# For a line search along a single output's shift, but at most this share of all queries.
_FIRST_QUERIES, _FIRST_LOOK = 16, 0.3


@dataclass(frozen=True)
class Walk:
    """What the default search found and how it judged its own value function.

    Attributes:
        outcome: The chosen phi and its predecessors.
        rank_correlation: Of value functions with queries held out from them (five-fold).

    Example:
        >>> Walk(Outcome(torch.zeros(2), ((1, torch.zeros(2)),)), 0.8).rank_correlation
        0.8
    """

    outcome: Outcome
    rank_correlation: float


def walk(
    oracle: Oracle,
    *,
    queries: int,
    seed: int,
    starts: Tensor | Callable[[], Tensor],
    recipe: Recipe | None = None,
    value: Bringing | None = None,
    keepsake: Keepsake | None = None,
) -> Walk:
    """Search phi for the lowest cost within `queries` queries, from 0 and the given starts (n, dim).

    Starts that are still to be found are asked for once phi = 0 was answered: a metric that fails there fails at once.
    It begins with the `value` function that another search has learnt, if there is one, and leaves its own in
    `keepsake`.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task = QuadraticTask(dim=4)
        >>> found = walk(Oracle(task), queries=60, seed=0, starts=torch.zeros(0, 4))
        >>> before, after = task.costs(torch.stack([torch.zeros(4), found.outcome.phi]))
        >>> bool(after < 0.5 * before)
        True
    """
    recipe = Recipe() if recipe is None else recipe
    if queries < 1:
        raise BudgetError(f"the search was given {queries} metric queries; expected at least 1")
    archive = Archive(oracle, queries, caution=recipe.caution, rows=recipe.rows)
    return walk_in(archive, seed=seed, starts=starts, recipe=recipe, value=value, keepsake=keepsake)


def walk_in(
    archive: Archive,
    *,
    seed: int,
    starts: Tensor | Callable[[], Tensor],
    recipe: Recipe,
    value: Bringing | None = None,
    keepsake: Keepsake | None = None,
) -> Walk:
    """The same, of someone who looks into the archive meanwhile."""
    oracle = archive.oracle
    _check_answers(archive)
    found = starts if isinstance(starts, Tensor) else starts()
    landmarks = torch.cat([torch.zeros(1, oracle.dim), found]) if recipe.starts else torch.zeros(1, oracle.dim)
    for number, landmark in enumerate(landmarks[1:]):
        # On rows whose labels it has learnt a start looks better than it is.
        archive.observe(landmark[None], stage="start", plain=number < oracle.probe.plain_starts)
    if recipe.inputs:
        moved = input_start(oracle.probe, rows=recipe.rows)
        archive.observe(moved, stage="start", plain=True)
        landmarks = torch.cat([landmarks, moved])
    archive.wait()  # what follows begins at the best of these
    brought = (None, None) if value is None else value.parts()
    guide = ValueArm(
        oracle,
        recipe,
        landmarks=landmarks,
        generator=stream(seed, "value arm"),
        warm=brought[0],
        settings=brought[1],
        keepsake=keepsake,
    )
    guide.begin(archive)
    arms: list[Arm] = [guide]
    shifts = oracle.probe.shift_coordinates
    threshold = ThresholdArm(shifts, rows=recipe.rows) if recipe.shifts and len(shifts) == 1 else None
    if threshold is not None:
        _first_look(archive, threshold, guide)
        arms.insert(0, threshold)
    # A value function is what few answers are best spent on.
    _spend(archive, arms, least=recipe.least, until=recipe.evolution)
    arms.append(EvolutionArm(oracle.dim, spread=recipe.spread, generator=stream(seed, "evolution arm")))
    _spend(archive, arms, least=recipe.least)
    archive.wait()
    if archive.oracle.crew is not None and threshold is not None and not threshold.spent:
        threshold.pull(
            archive
        )  # it may have waited for its last answer to settle on a point; nothing is asked any more
    guide.end(archive)
    return Walk(archive.outcome(), guide.held_out_correlation(archive))


def _first_look(archive: Archive, threshold: Arm, value: Arm) -> None:
    """A threshold: where it is all that is needed, nothing else must look better by luck, nor take the queries.

    While workers are at it, the other arm is pulled.
    """
    most, asked = min(_FIRST_QUERIES, round(_FIRST_LOOK * archive.queries)), 0
    while not threshold.spent and asked + 1 < most:
        if threshold.blocked(archive):
            _meanwhile(archive, value)
            continue
        made = archive.made
        threshold.pull(archive)
        asked += archive.made - made
        if archive.left < 1:
            return


def _meanwhile(archive: Archive, value: Arm) -> None:
    if archive.oracle.room and archive.left > 0:
        value.pull(archive)
    else:
        archive.receive()


def _check_answers(archive: Archive) -> None:
    """Query phi = 0, twice if need be: a metric that cannot judge the original model would waste every query."""
    origin = torch.zeros(1, archive.oracle.dim)
    for stage in ("start", "retry"):
        if bool(archive.costs.isnan().all()):
            archive.observe(origin, stage=stage, plain=True)
            archive.wait()
    if bool(archive.costs.isnan().all()):
        why = archive.oracle.ledger.queries[-1].failure or "no reason given"
        raise MetricError(
            f"the metric failed at phi = 0, the original model, {len(archive.costs)} times of {len(archive.costs)}; "
            f"expected a number: {why}"
        )


def _spend(archive: Archive, arms: list[Arm], *, least: float, until: int | None = None) -> None:
    """Give each arm queries in proportion to its recent gain a query, but never less than a share of the best's.

    Up to so many answers, or as long as there are queries.
    """
    rates = [0.0] * len(arms)
    spent = [0] * len(arms)
    idle = [0] * len(arms)  # pulls in a row that found nothing new to ask
    while archive.left > 0 and (until is None or archive.made < until):
        floor = least * max(rates) or 1.0
        open_arms = [arm for arm in range(len(arms)) if not arms[arm].spent and idle[arm] < _PATIENCE]
        if not open_arms:
            return
        free = [arm for arm in open_arms if not arms[arm].blocked(archive)]
        if not free:
            archive.receive()
            continue
        pick = min(free, key=lambda arm: spent[arm] / max(rates[arm], floor))
        level, made = arms[pick].level(archive), archive.made
        arms[pick].pull(archive)
        queries = archive.made - made
        if not queries and archive.pending():
            archive.receive()  # what it has to ask may depend on it
            continue
        idle = [0] * len(arms) if queries else [count + (arm == pick) for arm, count in enumerate(idle)]
        keep = 0.9**queries
        rates[pick] = keep * rates[pick] + (1 - keep) * (level - arms[pick].level(archive)) / max(1, queries)
        spent = [0.95**queries * before for before in spent]  # what was long ago is forgotten
        spent[pick] += queries
