"""Seeds of one recipe apart from those of another: what was measured before a change is no evidence about after it."""

from collections import defaultdict
from collections.abc import Sequence

from metricopt_lab.cells import Record
from metricopt_lab.problems.zoo import PROBLEMS

OURS = "metricopt"


def by_recipe(records: Sequence[Record]) -> dict[int, list[Record]]:
    """Records with visible labels by the version of ours that was measured with their seed, the newest first.

    Seeds without ours belong to the newest.

    Example:
        >>> old = {"problem": "adult_aucpr", "method": "metricopt", "seed": 0, "version": 104}
        >>> new, rival = old | {"seed": 1, "version": 200}, old | {"method": "bias", "version": 1}
        >>> [(version, len(some)) for version, some in by_recipe([old, new, rival]).items()]
        [(200, 1), (104, 2)]
    """
    visible = [record for record in records if PROBLEMS[record["problem"]].labels_visible]
    version = defaultdict[int, int](int)
    for record in visible:
        if record["method"] == OURS:
            version[record["seed"]] = max(version[record["seed"]], record["version"])
    newest = max(version.values(), default=0)
    found = defaultdict[int, list[Record]](list)
    for record in visible:
        found[version.get(record["seed"], newest)].append(record)
    return {number: found[number] for number in sorted(found, reverse=True)}


def widest(records: Sequence[Record]) -> list[Record]:
    """Of the visible records those of the recipe that was measured on most problems, and all hidden ones.

    Example:
        >>> old = {"problem": "adult_aucpr", "method": "metricopt", "seed": 0, "version": 104}
        >>> new = old | {"seed": 1, "version": 200}
        >>> [record["version"] for record in widest([old, new, old | {"problem": "reviews_f1"}])]
        [104, 104]
    """
    groups = by_recipe(records).values()
    best = max(groups, key=lambda some: len({record["problem"] for record in some}), default=[])
    return [*best, *(record for record in records if not PROBLEMS[record["problem"]].labels_visible)]
