"""What the pairs of searches show, in tables."""

from collections.abc import Sequence
from statistics import mean, stdev

from metricopt_lab.cells import Record
from metricopt_lab.markdown import heading, table
from metricopt_lab.statistics.paired import student_reach
from metricopt_lab.studies.transfer.pairs import PAIRS

COST = 1.1
"""A warm start may take so many times the queries of a cold one where it does not help."""

NOTES = """\
The goal of a pair and seed is the mean of what two cold searches with other seeds have reached on the queried rows with
all queries. "Needed" is the number of queries after which a search has reached it; one that has not after a third more
counts as having needed these, so means are too low where the share that reached it is below 1. Saved: the paired
difference to the cold search of the same seed, with a 95% interval over seeds (Student's t; none of one seed). A warm
start costs a tenth at most where that interval ends below a tenth of the cold search's queries, and is too dear where
it begins above it. Searches differ by luck: the column "spread" has the mean difference of the two cold ends, in units
of the metric. All pairs together count each pair and seed once; "wasted" is the largest number of queries that asked
about what the carried value likes best, before anything was known of it."""


def needed(record: Record) -> float:
    """Queries until the goal, or all there were.

    Example:
        >>> needed({"needed": None, "queries": 200}), needed({"needed": 70, "queries": 200})
        (200.0, 70.0)
    """
    return float(record["queries"] if record["needed"] is None else record["needed"])


def saved(records: Sequence[Record], pair: str, method: str) -> list[float]:
    """Queries that a method needed less than the cold search of the same pair and seed, one a seed.

    Example:
        >>> cold = {"data": "metric", "seed": 0, "method": "cold", "needed": 150, "queries": 200, "refused": ""}
        >>> saved([cold, {**cold, "method": "phi", "needed": 60}], "metric", "phi")
        [90.0]
    """
    mine, cold = (
        {r["seed"]: needed(r) for r in records if (r["data"], r["method"], r["refused"]) == (pair, name, "")}
        for name in (method, "cold")
    )
    return [cold[seed] - mine[seed] for seed in sorted(mine.keys() & cold.keys())]


def transfer_text(records: Sequence[Record]) -> str:
    """The whole text."""
    first = records[0]
    pairs = list(dict.fromkeys(record["data"] for record in records))
    parts = [heading("Transfer", records)]
    parts += [
        f"{first['granted']} queries; {first['problem']}.",
        *(f"**{pair}**: {PAIRS[pair].about}\n\n{_table(records, pair)}" for pair in pairs),
        "Verdicts:",
        _verdicts(records, pairs),
        "All pairs together:",
        _pooled(records, pairs),
        NOTES,
    ]
    return "\n\n".join(parts) + "\n"


def _table(records: Sequence[Record], pair: str) -> str:
    rows = [_row(records, pair, method) for method in dict.fromkeys(record["method"] for record in records)]
    header = ["begins with", "needed", "reached", "saved", "gain on test rows", "spread"]
    return table(header, [row for row in rows if row])


def _row(records: Sequence[Record], pair: str, method: str) -> list[str]:
    mine = [record for record in records if (record["data"], record["method"]) == (pair, method)]
    told = [record for record in mine if not record["refused"]]
    if not mine:
        return []
    if not told:
        return [method, f"refused: {mine[0]['refused']}", "", "", "", ""]
    less = saved(records, pair, method)
    return [
        f"{method} ({told[0]['kind']})" if method == "first" else method,
        f"{mean(needed(record) for record in told):.0f}",
        f"{mean(record['needed'] is not None for record in told):.2f}",
        "" if method == "cold" else interval(less),
        f"{mean(record['test_gain'] for record in told):+.4f}",
        f"{mean(record['cold_spread'] for record in told):.4f}",
    ]


def interval(values: Sequence[float]) -> str:
    """The mean of queries saved with its 95% interval.

    Example:
        >>> interval([10.0, 20.0, 30.0])
        '+20 (-5 .. +45)'
    """
    if len(values) < 2:
        return f"{mean(values):+.0f}"
    half = _half(values)
    return f"{mean(values):+.0f} ({mean(values) - half:+.0f} .. {mean(values) + half:+.0f})"


def _verdicts(records: Sequence[Record], pairs: Sequence[str]) -> str:
    methods = [method for method in dict.fromkeys(record["method"] for record in records) if method != "cold"]
    rows = []
    for method in methods:
        words = [verdict(records, pair, method) for pair in pairs if saved(records, pair, method)]
        counts = [f"{word}: {words.count(word)}" for word in dict.fromkeys(words)]
        rows.append([method, ", ".join(counts) or "refused everywhere"])
    return table(["begins with", "pairs"], rows)


def _pooled(records: Sequence[Record], pairs: Sequence[str]) -> str:
    """Queries saved over all pairs and seeds, beside a tenth of what a cold search needs."""
    tenth = (COST - 1) * mean(needed(r) for r in records if r["method"] == "cold")
    rows = []
    for method in dict.fromkeys(record["method"] for record in records if record["method"] != "cold"):
        less = [each for pair in pairs for each in saved(records, pair, method)]
        wasted = [record.get("transfer_queries", 0) for record in records if record["method"] == method]
        if less:
            rows.append([method, str(len(less)), interval(less), f"{-tenth:.0f}", str(max(wasted))])
    return table(["begins with", "searches", "saved", "a tenth would be", "wasted"], rows)


def verdict(records: Sequence[Record], pair: str, method: str) -> str:
    """Whether a method saves queries on a pair, costs too many, or neither can be told.

    Example:
        >>> cold = {"data": "metric", "method": "cold", "needed": 150, "queries": 200, "refused": ""}
        >>> warm = {**cold, "method": "phi"}
        >>> both = [{**cold, "seed": s} for s in range(3)] + [{**warm, "seed": s, "needed": 50 + s} for s in range(3)]
        >>> verdict(both, "metric", "phi")
        'saves queries'
    """
    less = saved(records, pair, method)
    if len(less) < 2:
        return "not resolvable with one seed"
    half = _half(less)
    cold = mean(needed(r) for r in records if (r["data"], r["method"]) == (pair, "cold"))
    if mean(less) - half > 0:
        return "saves queries"
    if mean(less) - half > -(COST - 1) * cold:
        return "costs a tenth at most"
    return "too dear" if mean(less) + half < -(COST - 1) * cold else "no difference resolved"


def _half(values: Sequence[float]) -> float:
    """Half of the 95% interval of a mean."""
    return student_reach(len(values)) * stdev(values) / len(values) ** 0.5
