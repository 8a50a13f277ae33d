"""How much better than it is the best of many answers looks on the very rows that it was chosen on."""

import math
from statistics import NormalDist

import torch
from torch import Tensor

from metricopt.core.records import Outcome
from metricopt.task.oracle import Oracle

_SLOWNESS = 500.0
"""Queries after which a search has made half of the luck its directions allow (docs/recipe-notes.md)."""
_STARTS = 3  # that a plain point is the best of: finetuned on plain and on balanced batches, and fitted to inputs
_FIRST_STAGE = 25  # answers; the stages after it are twice, four times ... as many


def luck(freedom: int, queries: int) -> float:
    """Standard errors of the gain by which a point found with so many queries along so many directions looks better.

    To choose along d directions by the answers on some rows fits what is particular to these rows by sqrt(d) standard
    errors in the end; after n queries a search has come part of the way.

    Args:
        freedom: Directions the search was free to choose.
        queries: Answers it has seen.

    Example:
        >>> round(luck(46, 500), 2), round(luck(46, 50), 2), round(luck(1, 50), 2)
        (4.8, 2.04, 0.3)
    """
    return math.sqrt(freedom * queries / (queries + _SLOWNESS))


def best_of(count: int) -> float:
    """Standard errors by which the best of so many looks better than it is if none is: the largest of n normals (Blom).

    Example:
        >>> round(best_of(3), 2), round(best_of(50), 2)  # .85 and 2.25 by integration
        (0.87, 2.24)
    """
    return NormalDist().inv_cdf((count - 0.375) / (count + 0.25))


def luck_of_search(freedom: int, queries: int) -> float:
    """Of a search that at first chooses among as many points as it asks about, and then climbs.

    Example:
        >>> round(luck_of_search(34, 50), 2), round(luck_of_search(34, 500), 2)
        (2.24, 4.12)
    """
    return max(best_of(max(2, queries)), luck(freedom, queries))


def judged_rungs(oracle: Oracle, outcome: Outcome) -> tuple[Tensor, list[float]]:
    """What of a search is judged on the rows it was made on, surest first, (1 or 2, dim), and how lucky each looks.

    The beginning of a search is a search itself, with fewer answers and less luck: what it had found by then may be
    proven better where the end, which looks better still, is not. So the surest of what plain steps and each stage had
    found is judged beside the end.

    Args:
        oracle: Who was asked; on resamples it tells how sure a gain is. A dear metric is not asked: then the plain
            point is judged beside the end.
        outcome: What was found, stage by stage.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> zero, shift, end = torch.zeros(4), torch.tensor([0.0, 0.0, 0.0, 1.0]), torch.ones(4)
        >>> found = Outcome(end, ((1, zero), (30, end)), plain=((1, zero), (9, shift)))
        >>> rungs, lucky = judged_rungs(Oracle(QuadraticTask(dim=4, shifts=1)), found)
        >>> torch.equal(rungs[0], shift), [round(each, 2) for each in lucky]
        (True, [0.24, 2.04])
    """
    rungs = outcome.rungs()
    end = luck_of_search(oracle.dim, _found(outcome, rungs[-1]))
    # Answers to all queries have chosen among thresholds, as long as they went on; starts do not look at any.
    plain = luck(1, outcome.incumbents[-1][0]) if len(oracle.probe.shift_coordinates) == 1 else best_of(_STARTS)
    candidates = [(plain, phi) for phi in rungs[:-1]]
    stages = [(luck_of_search(oracle.dim, count), phi) for count, phi in _stages(outcome)]
    leads = [oracle.lead(phi, torch.zeros_like(phi)) for _, phi in candidates + stages]
    if None not in leads:
        sure = [lead - lucky for lead, (lucky, _) in zip(leads, candidates + stages, strict=True) if lead is not None]
        candidates = [(candidates + stages)[sure.index(max(sure))]] if sure else []
    return torch.stack([*(phi for _, phi in candidates), rungs[-1]]), [*(lucky for lucky, _ in candidates), end]


def _found(outcome: Outcome, phi: Tensor) -> int:
    """Answers after which it was the best: later ones did not change that."""
    return next(count for count, incumbent in outcome.incumbents if torch.equal(incumbent, phi))


def _stages(outcome: Outcome) -> list[tuple[int, Tensor]]:
    """Points other than 0 and the end that were the best after 25, 50, 100 ... answers, and when they were found."""
    last, stage, found = outcome.incumbents[-1][0], max(_FIRST_STAGE, outcome.incumbents[0][0]), []
    while stage < last:
        phi = outcome.at(stage)
        if bool(phi.any()) and not torch.equal(phi, outcome.phi):
            found.append((_found(outcome, phi), phi))
        stage *= 2
    return found
