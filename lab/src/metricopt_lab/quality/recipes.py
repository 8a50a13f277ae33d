"""Records of one recipe apart from those of another: what was measured before a change tells nothing of after it."""

from collections import defaultdict
from collections.abc import Sequence

from metricopt_lab.cells import Record
from metricopt_lab.problems.zoo import PROBLEMS
from metricopt_lab.quality.targets import OURS


def by_recipe(records: Sequence[Record]) -> dict[int, list[Record]]:
    """Records with visible labels by the version of ours that was measured with their seed, the newest first.

    Seeds without ours belong to the newest.

    Example:
        >>> old = {"problem": "adult_aucpr", "method": "metricopt", "seed": 0, "version": 104}
        >>> new, rival = old | {"seed": 1, "version": 200}, old | {"method": "bias", "version": 1}
        >>> [(version, len(some)) for version, some in by_recipe([old, new, rival]).items()]
        [(200, 1), (104, 2)]
    """
    visible, _ = _parted(records)
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
    return [*best, *_parted(records)[1]]


def newest(records: Sequence[Record]) -> list[Record]:
    """Hidden records of problems and seeds that the newest version of ours was measured with, and all visible ones.

    Rivals are shown with the same seeds, or with all of theirs if ours was not measured at all.

    Example:
        >>> old = {"problem": "adult_flipped_aucpr_hidden", "method": "metricopt", "seed": 100, "version": 104}
        >>> ours = [old, old | {"seed": 102, "version": 105}]
        >>> rivals = [old | {"method": "snes", "version": 1}, old | {"method": "snes", "seed": 102, "version": 1}]
        >>> [(record["method"], record["seed"]) for record in newest([*ours, *rivals])]
        [('metricopt', 102), ('snes', 102)]
    """
    visible, hidden = _parted(records)
    ours = [record for record in hidden if record["method"] == OURS]
    last = max((record["version"] for record in ours), default=0)
    measured = {(record["problem"], record["seed"]) for record in ours if record["version"] == last}
    kept = [record for record in hidden
            if not ours or ((record["problem"], record["seed"]) in measured
                            and (record["method"] != OURS or record["version"] == last))]  # fmt: skip
    return [*visible, *kept]


def _parted(records: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """Those of problems with visible and with hidden labels."""
    visible = [record for record in records if PROBLEMS[record["problem"]].labels_visible]
    return visible, [record for record in records if not PROBLEMS[record["problem"]].labels_visible]
