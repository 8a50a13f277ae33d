"""Tables, targets and plots from the cells that are there."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from metricopt.core.writing import write_json, write_text
from metricopt_lab.experiments.quality.analysis import duels, gaining, mean_ranks, standings
from metricopt_lab.experiments.quality.cell import Row
from metricopt_lab.experiments.quality.cells import CellStore
from metricopt_lab.experiments.quality.methods import Method, methods_of
from metricopt_lab.experiments.quality.plots import plot_gains, plot_wins
from metricopt_lab.experiments.quality.settings import Settings
from metricopt_lab.experiments.quality.tables import markdown
from metricopt_lab.experiments.quality.targets import evaluate_targets


def summarise(out: Path, settings: Settings) -> dict[str, Any]:
    """Write `summary.md`, `summary.json`, `gain.png` and `wins.png` into the folder and return the summary.

    All cells of the folder with the same budgets and resamples count, those of earlier variants too; cells of a
    method whose code has changed since are counted and named.
    """
    cells = CellStore(out).comparable(settings)
    rows = [row for cell in cells for row in cell["rows"]]
    if not rows:
        return {"rows": 0}
    usual = [row for row in rows if row["film_dim"] == rows[0]["film_dim"]]
    # Of the processor: on the wall, a run beside others would seem slow.
    seconds = sum(cell["cpu_seconds"] for cell in cells if cell["settings"]["film_dim"] == rows[0]["film_dim"])
    summary = summary_of(rows, usual, seconds=seconds)
    summary["older_code"] = _older_code(cells, methods_of(Settings()))
    write_json(out / "summary.json", summary)
    write_text(out / "summary.md", markdown(usual, summary))
    plot_gains(usual, out / "gain.png")
    plot_wins(usual, out / "wins.png")
    return summary


def rows_of(out: Path, settings: Settings) -> list[Row]:
    """Rows of all comparable cells of the folder, those of the size of phi that tables show first."""
    return [row for cell in CellStore(out).comparable(settings) for row in cell["rows"]]


def summary_of(rows: Sequence[Row], usual: Sequence[Row], *, seconds: float) -> dict[str, Any]:
    """All figures of the tables as plain data.

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


def _older_code(cells: list[dict[str, Any]], methods: list[Method]) -> dict[str, int]:
    """How many cells of each method were computed by code that has changed since."""
    codes = {method.name: method.facts["code"] for method in methods}
    counts: dict[str, int] = {}
    for cell in cells:
        name = cell["rows"][0]["method"]
        if cell["settings"]["code"] != codes.get(name.partition("@")[0]):
            counts[name] = counts.get(name, 0) + 1
    return counts
