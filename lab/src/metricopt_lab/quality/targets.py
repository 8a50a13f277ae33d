"""What the benchmark is to show, one target after the other: met or missed, and by which cells."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from metricopt_lab.quality.analysis import costs_by_seed, duels, gaining
from metricopt_lab.quality.methods import DEFAULT, WITH_LABELS
from metricopt_lab.quality.rows import Row
from metricopt_lab.statistics.paired import Paired, paired

BLACK_BOX = ("random_search", "cma_es", "snes", "spsa", "post_shift_then_cma", "label_finetune_then_cma")
POST_SHIFT = {DEFAULT: "post_shift", WITH_LABELS: "label_finetune_then_post_shift"}
MOST_WORSE, LEAST_CORRELATION, LEAST_SHARE = 0.05, 0.8, 0.5
LONGEST, CORES, SEEDS = 45 * 60, 2, 3


@dataclass(frozen=True)
class Target:
    """A target and how it went.

    Attributes:
        name: What is to be shown.
        met: Whether it is; None if the rows cannot tell.
        found: What was found, in a few words.
        against: The cells that speak against it.

    Example:
        >>> time_needed([{"seed": seed} for seed in range(3)], 3600.0)
        Target(name='these problems and methods at 3 seeds in at most 45 minutes on 2 cores', met=True, ...)
    """

    name: str
    met: bool | None
    found: str
    against: tuple[str, ...] = ()


def evaluate_targets(rows: Sequence[Row], *, seconds: float | None = None) -> list[Target]:
    """Every target, judged by what a user gets.

    Args:
        rows: Rows of one size of phi, and perhaps of others for the target about it.
        seconds: Time of all cells on one core, for the target about time.
    """
    main_dim = rows[0]["film_dim"]
    usual = [row for row in rows if row["film_dim"] == main_dim]
    ours = [name for name in (DEFAULT, WITH_LABELS) if any(row["method"] == name for row in usual)]
    budgets = sorted({row["queries"] for row in usual})
    found: list[Target] = []
    for name in ours:
        for queries in budgets[1:] or budgets:
            found += [
                not_worse_than_rivals(usual, name, queries),
                *better_than_black_boxes(usual, name, queries),
                better_than_post_shift(usual, name, queries),
                original_where_nothing_gains(usual, name, queries),
            ]
        if len(budgets) > 1:
            found.append(not_worse_than_post_shift(usual, name, budgets[0]))
        found += [seldom_worse(usual, name), rejected_unchanged(usual, name), rank_correlations(usual, name)]
        found.append(more_dimensions(rows, name))
    return [*found, time_needed(usual, seconds)]


def rivals_of(rows: Sequence[Row], ours: str) -> list[str]:
    """Methods that see no more than `ours` does: without the labels, only those without.

    Example:
        >>> rows = [{"method": name, "needs_labels": "label" in name} for name in ("cma_es", "label_finetune")]
        >>> rivals_of(rows, "metricopt"), rivals_of(rows, "metricopt_labels")
        (['cma_es'], ['cma_es', 'label_finetune'])
    """
    labels = {row["method"]: row["needs_labels"] for row in rows}
    return [name for name, needs in labels.items() if "metricopt" not in name and (ours == WITH_LABELS or not needs)]


def not_worse_than_rivals(rows: Sequence[Row], ours: str, queries: int) -> Target:
    """Not worse than any rival by more than one standard error of the paired difference, on every problem."""
    rivals = {*rivals_of(rows, ours), *({"metricopt_paper"} & {row["method"] for row in rows})}
    fought = {key: gain for key, gain in duels(rows, ours, queries).items() if key[0] in rivals}
    against = [_described(key, gain) for key, gain in fought.items() if not gain.not_worse]
    return Target(
        f"{ours} at {queries}: not worse than any rival by more than one standard error, on every problem",
        _known(fought, not against),
        f"{len(fought) - len(against)} of {len(fought)} comparisons",
        tuple(against),
    )


def better_than_black_boxes(rows: Sequence[Row], ours: str, queries: int) -> list[Target]:
    """Significantly better than each black-box rival on half of the problems on which any method gains."""
    problems = [problem for problem, methods in gaining(rows, queries).items() if methods]
    return [
        _better_on(rows, (ours, rival), queries, problems, share=LEAST_SHARE)
        for rival in BLACK_BOX
        if rival in rivals_of(rows, ours)
    ]


def better_than_post_shift(rows: Sequence[Row], ours: str, queries: int) -> Target:
    """Significantly better than post-shift on all problems beyond thresholds on which any method gains."""
    kinds = {row["problem"]: row["kind"] for row in rows}
    problems = [p for p, methods in gaining(rows, queries).items() if methods and kinds[p] != "threshold"]
    return _better_on(rows, (ours, "post_shift"), queries, problems, share=1.0)


def _better_on(
    rows: Sequence[Row], pair: tuple[str, str], queries: int, problems: list[str], *, share: float
) -> Target:
    ours, rival = pair
    fought = {key: gain for key, gain in duels(rows, ours, queries).items() if key[0] == rival and key[1] in problems}
    against = [_described(key, gain) for key, gain in fought.items() if not gain.better]
    won, where = len(fought) - len(against), "all" if share == 1.0 else "half"
    beyond = " beyond thresholds" if share == 1.0 else ""
    return Target(
        f"{ours} at {queries}: significantly better than {rival} on {where} of the problems{beyond} with any gain",
        _known(fought, won >= share * len(fought)),
        f"{won} of {len(fought)}",
        tuple(against),
    )


def original_where_nothing_gains(rows: Sequence[Row], ours: str, queries: int) -> Target:
    """Where no method gains significantly, the original model is what comes back."""
    problems = {problem for problem, methods in gaining(rows, queries).items() if not methods}
    runs = [row for row in _runs(rows, ours) if row["queries"] == queries and row["problem"] in problems]
    against = [_named(row) for row in runs if row["accepted"]]
    return Target(
        f"{ours} at {queries}: where nothing gains significantly, the original comes back",
        None if _seeds(rows) < 2 else not against,
        f"{len(runs) - len(against)} of {len(runs)} runs on {len(problems)} such problems",
        tuple(against),
    )


def not_worse_than_post_shift(rows: Sequence[Row], ours: str, queries: int) -> Target:
    """At the smallest budget, not worse than post-shift by more than one standard error anywhere."""
    rivals = {"post_shift", POST_SHIFT[ours]}
    fought = {key: gain for key, gain in duels(rows, ours, queries).items() if key[0] in rivals}
    against = [_described(key, gain) for key, gain in fought.items() if not gain.not_worse]
    return Target(
        f"{ours} at {queries}: not worse than post-shift by more than one standard error anywhere",
        _known(fought, not against),
        f"{len(fought) - len(against)} of {len(fought)} comparisons",
        tuple(against),
    )


def seldom_worse(rows: Sequence[Row], ours: str) -> Target:
    """Accepted results are worse than the pre-trained model on test data in at most 5% of all runs."""
    runs = _runs(rows, ours)
    against = [_named(row) for row in runs if row["accepted"] and row["cost_after"] > row["cost_before"]]
    share = len(against) / max(len(runs), 1)
    accepted = sum(row["accepted"] for row in runs)
    return Target(
        f"{ours}: accepted and worse on test data in at most {MOST_WORSE:.0%} of all runs",
        share <= MOST_WORSE,
        f"{len(against)} of {len(runs)} runs ({share:.1%}), {accepted} accepted",
        tuple(against),
    )


def rejected_unchanged(rows: Sequence[Row], ours: str) -> Target:
    """Rejected results return the pre-trained model unchanged."""
    runs = [row for row in _runs(rows, ours) if not row["accepted"]]
    against = [_named(row) for row in runs if row["cost_returned"] != row["cost_before"]]
    return Target(
        f"{ours}: rejected results return the original unchanged",
        not against,
        f"{len(runs) - len(against)} of {len(runs)} rejected runs",
        tuple(against),
    )


def rank_correlations(rows: Sequence[Row], ours: str) -> Target:
    """Median over problems of the rank correlation of the value function with held-out answers."""
    known: dict[str, list[float]] = defaultdict(list)
    for row in _runs(rows, ours):
        if row["rank_correlation"] is not None:
            known[row["problem"]].append(row["rank_correlation"])
    means = {problem: fmean(values) for problem, values in known.items()}
    middle = median(means.values()) if means else float("nan")
    against = [f"{problem}: {mean:.2f}" for problem, mean in means.items() if mean < LEAST_CORRELATION]
    return Target(
        f"{ours}: rank correlation of the value function, median over problems at least {LEAST_CORRELATION}",
        middle >= LEAST_CORRELATION if means else None,
        f"median {middle:.2f} of {len(means)} problems",
        tuple(against),
    )


def more_dimensions(rows: Sequence[Row], ours: str) -> Target:
    """More dimensions never make the result significantly worse."""
    dims = sorted({row["film_dim"] for row in rows})
    tables = {dim: costs_by_seed([row for row in _runs(rows, ours) if row["film_dim"] == dim]) for dim in dims}
    against, compared = [], 0
    for fewer, more in pairwise(dims):
        for key in tables[fewer].keys() & tables[more].keys():
            gain = paired(tables[more][key], tables[fewer][key])
            compared += 1
            if gain.verdict == "loss":
                against.append(f"{key[0]} at {key[1]}, {fewer} to {more}: {gain.mean:+.4f}")
    return Target(
        f"{ours}: more dimensions never make it significantly worse",
        not against if compared else None,
        f"dimensions {', '.join(map(str, dims))}; {compared} comparisons",
        tuple(sorted(against)),
    )


def time_needed(rows: Sequence[Row], seconds: float | None) -> Target:
    """Time of the benchmark at 3 seeds on two cores, from the time of the cells that are there."""
    wall = None if seconds is None else seconds / CORES * SEEDS / max(_seeds(rows), 1)
    return Target(
        f"these problems and methods at {SEEDS} seeds in at most {LONGEST // 60} minutes on {CORES} cores",
        None if wall is None else wall <= LONGEST,
        "unknown" if wall is None else f"{wall / 60:.0f} minutes",
    )


def _runs(rows: Sequence[Row], ours: str) -> list[Row]:
    return [row for row in rows if row["method"] == ours]


def _seeds(rows: Sequence[Row]) -> int:
    return len({row["seed"] for row in rows})


def _known(fought: dict[tuple[str, str], Paired], met: bool) -> bool | None:
    """Significance needs two seeds; without any comparison nothing is known."""
    return met if fought and all(gain.seeds > 1 for gain in fought.values()) else None


def _described(key: tuple[str, str], gain: Paired) -> str:
    rival, problem = key
    return f"{problem} against {rival}: {gain.mean:+.4f} ± {gain.standard_error:.4f}"


def _named(row: Row) -> str:
    change = row["cost_before"] - row["cost_after"]
    return f"{row['problem']} at {row['queries']}, seed {row['seed']}: {change:+.4f}"
