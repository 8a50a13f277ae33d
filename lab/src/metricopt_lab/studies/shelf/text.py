"""What entries of the shelf save, as a table and as the words of an entry's row."""

from collections.abc import Sequence
from statistics import mean

from metricopt.report.words import plural
from metricopt_lab.cells import Record
from metricopt_lab.markdown import heading, table
from metricopt_lab.studies.shelf.sources import SOURCES
from metricopt_lab.studies.transfer.text import interval, needed, saved, verdict

NOTES = """\
Each entry was learnt by one search with rows and a network of its own, and is tried as `optimize(value="its name")`
uses it: by statistics of predictions, which know neither rows nor network. Needed, saved and verdicts are as above."""


def shelf_text(records: Sequence[Record]) -> str:
    """The whole text."""
    first = records[0]
    known = dict.fromkeys((r["method"], r["data"]) for r in records if r["method"] != "cold")
    tried = [(name, place) for name in SOURCES for place in SOURCES[name].elsewhere if (name, place) in known]
    header = ["entry", "tried in", "cold needs", "with it", "saved", "verdict"]
    return "\n\n".join([
        heading("The shelf", records),
        f"{first['granted']} queries; {first['problem']}.",
        table(header, [_row(records, name, place) for name, place in tried]),
        NOTES,
    ]) + "\n"  # fmt: skip


def _row(records: Sequence[Record], name: str, place: str) -> list[str]:
    means = [
        f"{mean(needed(r) for r in records if (r['data'], r['method']) == (place, method)):.0f}"
        for method in ("cold", name)
    ]
    return [name, place, *means, interval(saved(records, place, name)), verdict(records, place, name)]


def measured(records: Sequence[Record], name: str) -> str:
    """The use of an entry in words, for its row on the shelf; empty if it was not measured.

    Example:
        >>> cold = {"data": "incomes_aucpr", "seed": 0, "method": "cold", "needed": 150, "queries": 200, "refused": ""}
        >>> measured([cold, {**cold, "method": "ranking_of_incomes", "needed": 60}], "ranking_of_incomes")
        'queries saved until the gain of a cold search at 150: incomes_aucpr +90 of 150 (1 seed); metricopt run shelf'
    """
    tried = [place for place in SOURCES[name].elsewhere if saved(records, place, name)]
    if not tried:
        return ""
    parts = [_part(records, name, place) for place in tried]
    return f"queries saved until the gain of a cold search at 150: {'; '.join(parts)}; metricopt run shelf"


def _part(records: Sequence[Record], name: str, place: str) -> str:
    less = saved(records, place, name)
    cold = mean(needed(r) for r in records if (r["data"], r["method"]) == (place, "cold"))
    return f"{place} {interval(less)} of {cold:.0f} ({plural(len(less), 'seed')})"
