"""Processor seconds by kind of network."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from metricopt_lab.cells import Record
from metricopt_lab.problems.zoo import PROBLEMS

NETWORKS = {"adult": "MLP", "covtype": "MLP", "cifar": "ConvNet", "reviews": "text", "clinc": "text"}


def network_of(problem: str) -> str:
    """What kind of network a problem has.

    Example:
        >>> network_of("clinc_worst_intent")
        'text'
    """
    return NETWORKS[PROBLEMS[problem].source]


def cpu_seconds(records: Sequence[Record], queries: int) -> dict[tuple[str, str], float]:
    """Mean over runs at a budget, of each (method, kind of network)."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for record in records:
        if record["queries"] == queries:
            found[record["method"], network_of(record["problem"])].append(record["cpu_seconds"])
    return {key: fmean(values) for key, values in found.items()}


def ratio(records: Sequence[Record], ours: str, theirs: str, queries: int) -> dict[str, float]:
    """Ours over theirs in processor seconds, of each kind of network that both were measured on."""
    taken = cpu_seconds(records, queries)
    return {kind: seconds / taken[theirs, kind]
            for (method, kind), seconds in taken.items() if method == ours and (theirs, kind) in taken}  # fmt: skip
