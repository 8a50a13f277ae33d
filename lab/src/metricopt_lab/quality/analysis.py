"""From rows to standings and duels; nothing here knows where the rows came from."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

from scipy.stats import rankdata

from metricopt_lab.quality.rows import Row
from metricopt_lab.statistics.paired import Paired, paired

ORIGINAL = "pretrained"

View = Literal["user", "accepted", "proposal"]
"""What a method is judged by: what its user gets (guarded methods: the original unless accepted; others: their
proposal), the same with the acceptance test applied to all, or what every method proposes, whether accepted or not (of
MetricOpt the one of its two proposals that held-out rows chose)."""

Costs = dict[int, float]

# One network's AUCPR differs in the eighth digit from run to run, by the order in which scores are summed.
_DIGITS = 6


@dataclass(frozen=True)
class Standing:
    """A method on a problem at a budget.

    Attributes:
        mean: Mean over seeds, in the metric's natural units.
        standard_error: Of that mean.
        gain: Gain over the pre-trained model in units of cost, paired over seeds.
        rank: 1 for the best of all methods; equal means share the average of their ranks.
    """

    problem: str
    kind: str
    queries: int
    method: str
    needs_labels: bool
    mean: float
    standard_error: float
    gain: Paired
    rank: float


def cost_of(row: Row, view: View = "user") -> float:
    """Test cost of a row in a view, to as many digits as it is sure of.

    Example:
        >>> row = {"guarded": True, "cost_after": 0.3, "cost_returned": 0.2}
        >>> cost_of(row), cost_of(row, "proposal"), cost_of({**row, "guarded": False}), cost_of(row, "accepted")
        (0.2, 0.3, 0.3, 0.2)
    """
    return round(row[f"cost_{_which(row, view)}"], _DIGITS)


def _which(row: Row, view: View) -> str:
    return "returned" if view == "accepted" or (view == "user" and row["guarded"]) else "after"


def costs_by_seed(rows: Iterable[Row], view: View = "user") -> dict[tuple[str, int, str], Costs]:
    """Costs by seed of each (problem, queries, method).

    Example:
        >>> row = {"problem": "p", "queries": 50, "method": "m", "seed": 3, "guarded": False, "cost_after": 0.25}
        >>> costs_by_seed([row])
        {('p', 50, 'm'): {3: 0.25}}
    """
    table: dict[tuple[str, int, str], Costs] = defaultdict(dict)
    for row in rows:
        table[row["problem"], row["queries"], row["method"]][row["seed"]] = cost_of(row, view)
    return dict(table)


def originals(rows: Iterable[Row]) -> dict[str, Costs]:
    """Cost of the pre-trained model by seed, of each problem; every row has it.

    Example:
        >>> originals([{"problem": "p", "seed": 0, "cost_before": 0.5}])
        {'p': {0: 0.5}}
    """
    table: dict[str, Costs] = defaultdict(dict)
    for row in rows:
        table[row["problem"]][row["seed"]] = round(row["cost_before"], _DIGITS)
    return dict(table)


def standings(rows: Sequence[Row], view: View = "user") -> list[Standing]:
    """Every method on every problem at every budget, best first within a problem and budget."""
    grouped: dict[tuple[str, int], dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        grouped[row["problem"], row["queries"]][row["method"]].append(row)
    before, found = originals(rows), []
    for (problem, _), methods in grouped.items():
        costs = [fmean(cost_of(row, view) for row in runs) for runs in methods.values()]
        # Rounded, for means of equal costs may differ in the last bit.
        ranks = rankdata([round(cost, 9) for cost in costs])
        some = [
            _standing(runs, before[problem], rank, view) for runs, rank in zip(methods.values(), ranks, strict=True)
        ]
        found += sorted(some, key=lambda one: one.rank)
    return found


def _standing(runs: list[Row], before: Costs, rank: float, view: View) -> Standing:
    row = runs[0]
    mean, error = _mean_and_error([run[f"test_{_which(run, view)}"] for run in runs])
    return Standing(
        row["problem"],
        row["kind"],
        row["queries"],
        row["method"],
        needs_labels=row["needs_labels"],
        mean=mean,
        standard_error=error,
        gain=paired({run["seed"]: cost_of(run, view) for run in runs}, before),
        rank=float(rank),
    )


def duels(rows: Sequence[Row], ours: str, queries: int, view: View = "user") -> dict[tuple[str, str], Paired]:
    """Gain of `ours` over each other method on each problem at a budget: keys (rival, problem).

    Example:
        >>> row = {"problem": "p", "queries": 50, "seed": 0, "guarded": False, "cost_after": 0.25}
        >>> rows = [row | {"method": "ours"}, row | {"method": "rival", "cost_after": 0.5}]
        >>> {key: gain.mean for key, gain in duels(rows, "ours", 50).items()}
        {('rival', 'p'): 0.25}
    """
    table = costs_by_seed(rows, view)
    return {
        (method, problem): paired(table[problem, queries, ours], costs)
        for (problem, budget, method), costs in table.items()
        if budget == queries and method != ours and (problem, queries, ours) in table
    }


def gaining(rows: Sequence[Row], queries: int, view: View = "user") -> dict[str, list[str]]:
    """The methods that gain significantly over the pre-trained model, of each problem, at a budget."""
    before = originals(rows)
    found: dict[str, list[str]] = {problem: [] for problem in before}
    for (problem, budget, method), costs in costs_by_seed(rows, view).items():
        if budget == queries and method != ORIGINAL and paired(costs, before[problem]).better:
            found[problem].append(method)
    return found


def mean_ranks(rows: Sequence[Row], view: View = "user") -> dict[tuple[str, int], float]:
    """Mean over problems of each method's rank at each budget: keys (method, queries)."""
    ranks: dict[tuple[str, int], list[float]] = defaultdict(list)
    for one in standings(rows, view):
        ranks[one.method, one.queries].append(one.rank)
    return {key: fmean(values) for key, values in ranks.items()}


def _mean_and_error(values: list[float]) -> tuple[float, float]:
    error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return fmean(values), error
