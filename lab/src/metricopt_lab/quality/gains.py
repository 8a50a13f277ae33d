"""Gains over the pre-trained network, in units that can be averaged over problems."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

import numpy as np

from metricopt.report.words import plural
from metricopt_lab.cells import Record
from metricopt_lab.problems.zoo import PROBLEMS

LEAST_BEST = 0.005
"""Where nobody gained that much, gains are divided by it: a null problem would make giants of noise."""
WORST = -1.0
"""A loss larger than the best gain counts as one that large."""
DRAWS, LEVEL = 2000, 0.9

# One network's AUCPR differs in the eighth digit from run to run, by the order in which scores are summed.
_DIGITS = 6

View = Literal["returned", "proposed"]
BySeed = dict[int, float]
Normalised = dict[str, BySeed]
"""Normalised gains by problem and seed."""


@dataclass(frozen=True)
class Interval:
    """A mean over problems with its bootstrap interval.

    Example:
        >>> print(Interval(0.5, 0.4, 0.6, 3))
        .50 (.40 .. .60)
    """

    mean: float
    low: float
    high: float
    problems: int

    def __str__(self) -> str:
        mean, low, high = (f"{value:.2f}".replace("0.", ".", 1) for value in (self.mean, self.low, self.high))
        return f"{mean} ({low} .. {high})"


def seen(records: Iterable[Record], *, labels_visible: bool) -> list[Record]:
    """Records of problems with visible or with hidden labels, of methods that had something to offer there."""
    return [record for record in records
            if record["offered"] and PROBLEMS[record["problem"]].labels_visible == labels_visible]  # fmt: skip


def gain_of(record: Record, view: View = "returned") -> float:
    """Gain of a run in units of cost.

    Example:
        >>> gain_of({"cost_before": 0.5, "cost_returned": 0.5, "cost_proposed": 0.25}, "proposed")
        0.25
    """
    return round(record["cost_before"] - record[f"cost_{view}"], _DIGITS)


def gains(records: Iterable[Record], view: View = "returned") -> dict[tuple[str, str, int], BySeed]:
    """Gains by seed of each (problem, method, queries)."""
    found: dict[tuple[str, str, int], BySeed] = defaultdict(dict)
    for record in records:
        found[record["problem"], record["method"], record["queries"]][record["seed"]] = gain_of(record, view)
    return dict(found)


def best_gains(records: Iterable[Record]) -> dict[str, float]:
    """The best mean gain over seeds that any method reached at any budget, of each problem.

    Of those with as many seeds as any: the mean of fewer is the better the luckier they were.

    Example:
        >>> record = {"problem": "p", "method": "m", "queries": 50, "seed": 0, "cost_before": 0.5, "cost_returned": 0.3}
        >>> best_gains([record, record | {"queries": 150, "cost_returned": 0.25}])
        {'p': 0.25}
    """
    best: dict[str, float] = defaultdict(lambda: LEAST_BEST)
    found = gains(records)
    most: dict[str, int] = defaultdict(int)
    for (problem, _, _), by_seed in found.items():
        most[problem] = max(most[problem], len(by_seed))
    for (problem, _, _), by_seed in found.items():
        if len(by_seed) == most[problem]:
            best[problem] = max(best[problem], fmean(by_seed.values()))
    return dict(best)


def normalised(records: Sequence[Record], view: View = "returned") -> dict[tuple[str, int], Normalised]:
    """Gains divided by the best gain there, of each (method, queries).

    Example:
        >>> record = {"problem": "p", "method": "m", "queries": 50, "seed": 0, "cost_before": 0.5, "cost_returned": 0.3}
        >>> normalised([record, record | {"method": "n", "cost_returned": 0.4}])["n", 50]
        {'p': {0: 0.5}}
    """
    best = best_gains(records)
    found: dict[tuple[str, int], Normalised] = defaultdict(dict)
    for (problem, method, queries), by_seed in gains(records, view).items():
        shares = {seed: max(WORST, gain / best[problem]) for seed, gain in by_seed.items()}
        found[method, queries][problem] = shares
    return dict(found)


def mean_of(some: Normalised) -> float:
    """Mean over problems of means over seeds."""
    return fmean(fmean(by_seed.values()) for by_seed in some.values())


def interval(some: Mapping[str, BySeed]) -> Interval:
    """Mean over problems, and its 90% interval by a bootstrap of problems and, within each, of seeds.

    Example:
        >>> interval({"p": {0: 0.5, 1: 0.5}, "q": {0: 0.5}})
        Interval(mean=0.5, low=0.5, high=0.5, problems=2)
    """
    draw, count = np.random.default_rng(0), len(some)
    resampled = np.empty((count, DRAWS, count))  # of each problem, for every place that it may take in a draw
    for at, by_seed in enumerate(some.values()):
        values = np.fromiter(by_seed.values(), float)
        resampled[at] = values[draw.integers(len(values), size=(DRAWS, count, len(values)))].mean(-1)
    taken = draw.integers(count, size=(DRAWS, count))
    means = resampled[taken, np.arange(DRAWS)[:, None], np.arange(count)].mean(-1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(mean_of(dict(some)), float(low), float(high), count)


def told(found: Mapping[tuple[str, int], Normalised], method: str, queries: int) -> str:
    """The interval of a method at a budget in words, with its seeds where other methods have more on a problem.

    Example:
        >>> some = {"p": {0: 0.5, 1: 0.5}}
        >>> print(told({("m", 50): some, ("n", 50): {"p": {0: 0.5}}}, "n", 50))
        .50 (.50 .. .50), 1 seed
    """
    mine = found[method, queries]
    others = [each for (_, budget), each in found.items() if budget == queries]
    fewer = [len(mine[p]) for p in mine if len(mine[p]) < max(len(each.get(p, ())) for each in others)]
    return f"{interval(mine)}, {plural(min(fewer), 'seed')}" if fewer else str(interval(mine))


def difference(ours: Normalised, theirs: Normalised) -> Interval:
    """Ours minus theirs on the problems and seeds that both have.

    Example:
        >>> difference({"p": {0: 0.75}, "q": {0: 1.0}}, {"p": {0: 0.5, 1: 0.0}}).mean
        0.25
    """
    both = {problem: {seed: ours[problem][seed] - theirs[problem][seed]
                      for seed in ours[problem].keys() & theirs[problem].keys()}
            for problem in ours if problem in theirs}  # fmt: skip
    return interval({problem: by_seed for problem, by_seed in both.items() if by_seed})
