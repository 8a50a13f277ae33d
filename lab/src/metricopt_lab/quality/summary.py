"""All figures of the tables as plain data."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from metricopt_lab.cells import Record
from metricopt_lab.quality.analysis import duels, gaining, mean_ranks, standings
from metricopt_lab.quality.rows import Row, rows_of
from metricopt_lab.quality.targets import evaluate_targets


def usual(records: Sequence[Record]) -> list[Record]:
    """Those of the size of phi that the tables show: that of the first."""
    return [record for record in records if record["film_dim"] == records[0]["film_dim"]]


def summary_of(records: Sequence[Record]) -> dict[str, Any]:
    """The summary of records; those of other sizes of phi count for the target about it only."""
    shown = usual(records)
    # Of the processor: on the wall, a run beside others would seem slow.
    seconds = sum(record["took"]["cpu_seconds"] for record in shown)
    return summary_of_rows(rows_of(records), rows_of(shown), seconds=seconds)


def summary_of_rows(rows: Sequence[Row], usual: Sequence[Row], *, seconds: float) -> dict[str, Any]:
    """The same of rows.

    Args:
        rows: All rows.
        usual: Those of the size of phi that the tables show.
        seconds: Time of their cells.
    """
    budgets = sorted({row["queries"] for row in usual})
    ours = sorted({row["method"] for row in usual if row["guarded"]})
    return {
        "rows": len(rows),
        "seeds": len({row["seed"] for row in usual}),
        "queries": budgets,
        "dim": usual[0]["film_dim"],
        "cell_seconds": seconds,
        "targets": [asdict(target) for target in evaluate_targets(rows, seconds=seconds)],
        "gaining": {str(queries): gaining(usual, queries) for queries in budgets},
        "mean_ranks": [
            {"method": method, "queries": queries, "rank": rank}
            for (method, queries), rank in mean_ranks(usual).items()
        ],
        "standings": {view: [asdict(one) for one in standings(usual, view)] for view in ("user", "accepted")},
        "duels": [
            {"ours": name, "queries": queries, "view": view, "rival": rival, "problem": problem}
            | {"verdict": gain.verdict, "not_worse": gain.not_worse, **asdict(gain)}
            for view in ("user", "accepted")
            for name in ours
            for queries in budgets
            for (rival, problem), gain in duels(usual, name, queries, view).items()
        ],
    }
