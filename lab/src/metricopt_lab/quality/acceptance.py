"""What saying no costs, and what saying yes risks."""

from collections.abc import Sequence
from dataclasses import dataclass

from metricopt_lab.cells import Record
from metricopt_lab.quality.gains import best_gains, gain_of


@dataclass(frozen=True)
class Verdicts:
    """Runs of a method that decides for itself.

    Attributes:
        runs: How many.
        accepted: Of them.
        worse: Accepted, and worse on test rows than the original.
        rejected_better: Rejected, though better on test rows.
        lost: Gain of rejected proposals as a share of the gain of all that were better, in normalised units.
    """

    runs: int
    accepted: int
    worse: int
    rejected_better: int
    lost: float


def verdicts(records: Sequence[Record], method: str, *, among: Sequence[Record]) -> Verdicts | None:
    """Of all runs of a method, at every budget; None if there are none.

    Args:
        records: The runs.
        method: Whose.
        among: All records of these problems, which say what the best gain is.
    """
    runs = [record for record in records if record["method"] == method]
    if not runs:
        return None
    best = best_gains(among)
    yes = [record for record in runs if record["details"]["accepted"]]
    no = [record for record in runs if not record["details"]["accepted"]]
    missed = [gain_of(record, "proposed") / best[record["problem"]] for record in no]
    offered = [gain_of(record, "proposed") / best[record["problem"]] for record in runs]
    there_was = sum(gain for gain in offered if gain > 0)
    lost = sum(gain for gain in missed if gain > 0) / there_was if there_was else 0.0
    worse = sum(gain_of(record) < 0 for record in yes)
    return Verdicts(len(runs), len(yes), worse, sum(gain > 0 for gain in missed), lost)
