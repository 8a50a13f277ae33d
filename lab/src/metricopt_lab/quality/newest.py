"""Where labels are hidden, only what the newest search was measured on is shown: versions are never averaged."""

from collections.abc import Sequence

from metricopt_lab.cells import Record
from metricopt_lab.problems.zoo import PROBLEMS

OURS = "metricopt"


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
    hidden = [record for record in records if not PROBLEMS[record["problem"]].labels_visible]
    ours = [record for record in hidden if record["method"] == OURS]
    last = max((record["version"] for record in ours), default=0)
    measured = {(record["problem"], record["seed"]) for record in ours if record["version"] == last}
    kept = [record for record in hidden
            if not ours or ((record["problem"], record["seed"]) in measured
                            and (record["method"] != OURS or record["version"] == last))]  # fmt: skip
    return [*(record for record in records if PROBLEMS[record["problem"]].labels_visible), *kept]
