"""The summary as text: Markdown tables."""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from metricopt_lab.markdown import table
from metricopt_lab.quality.analysis import Standing, View, duels, standings
from metricopt_lab.quality.rows import Row

_KINDS = {
    "threshold": "a threshold can help",
    "ranking": "a threshold is powerless",
    "mismatch": "training and metric disagree",
}
_VIEWS: dict[View, str] = {
    "user": "what a user gets (MetricOpt: the original unless accepted; rivals: their proposal)",
    "accepted": "the acceptance test applied to every method",
}


def markdown(rows: Sequence[Row], summary: dict[str, Any]) -> str:
    """All tables of a summary."""
    views: list[View] = ["user", "accepted"]
    parts = [
        "# Quality at equal numbers of metric queries",
        _introduction(rows, summary),
        "## Targets",
        target_table(summary["targets"]),
        "## Mean rank over problems",
        rank_table(rows),
        *(f"## Wins / ties / losses, {_VIEWS[view]}\n\n{duel_table(rows, view)}" for view in views),
        "## Acceptance",
        acceptance_table(rows),
        *(f"## Test metric by problem, {_VIEWS[view]}\n\n{problem_tables(rows, view)}" for view in views),
        "## Time",
        time_table(rows),
    ]
    return "\n\n".join(parts) + "\n"


def _introduction(rows: Sequence[Row], summary: dict[str, Any]) -> str:
    return (
        f"{len({row['problem'] for row in rows})} problems, {summary['seeds']} seeds, budgets "
        f"{', '.join(map(str, summary['queries']))}, FiLM dimension {summary['dim']}. Mean ± standard error over "
        f"seeds; † learns from the labels of the metric's data as well. A win or loss is significant by a one-sided "
        f"paired t-test over seeds (p < 0.05)."
    )


def target_table(targets: Sequence[dict[str, Any]]) -> str:
    """Every target with what was found, then the cells against each missed one."""
    words = {True: "met", False: "**missed**", None: "not measured"}
    lines = [[one["name"], words[one["met"]], one["found"]] for one in targets]
    notes = [
        f"- {one['name']} ({one['found']}): {'; '.join(one['against'])}"
        for one in targets
        if one["met"] is False and one["against"]
    ]
    listed = "\n\nAgainst the missed ones (gain in units of cost ± standard error):\n\n" + "\n".join(notes)
    return table(["target", "", "found"], lines) + (listed if notes else "")


def rank_table(rows: Sequence[Row]) -> str:
    """Mean rank of each method at each budget, best at the largest budget first."""
    some = standings(rows)
    budgets = sorted({one.queries for one in some})
    ranks = {
        _marked(method, labels): [
            fmean(one.rank for one in some if one.method == method and one.queries == queries) for queries in budgets
        ]
        for method, labels in {one.method: one.needs_labels for one in some}.items()
    }
    ordered = sorted(ranks.items(), key=lambda item: item[1][-1])
    return table(["method", *map(str, budgets)], [[name, *(f"{rank:.1f}" for rank in each)] for name, each in ordered])


def duel_table(rows: Sequence[Row], view: View) -> str:
    """Wins, ties and losses of each of our methods against each other method, over problems."""
    budgets = sorted({row["queries"] for row in rows})
    labels = {row["method"]: row["needs_labels"] for row in rows}
    ours = [name for name in labels if any(row["guarded"] and row["method"] == name for row in rows)]
    lines = []
    for name in ours:
        fought = {queries: duels(rows, name, queries, view) for queries in budgets}
        for rival in [one for one in labels if one != name]:
            scores = [_score([gain.verdict for key, gain in fought[q].items() if key[0] == rival]) for q in budgets]
            lines.append([f"{_marked(name, labels[name])} against {_marked(rival, labels[rival])}", *scores])
    return table(["", *map(str, budgets)], lines)


def _score(verdicts: list[str]) -> str:
    counts = Counter(verdicts)
    return f"{counts['win']} / {counts['tie']} / {counts['loss']}"


def acceptance_table(rows: Sequence[Row]) -> str:
    """How often a proposal was accepted, and was worse than the original on test data with and without acceptance."""
    lines = []
    for method, labels in {row["method"]: row["needs_labels"] for row in rows}.items():
        runs = [row for row in rows if row["method"] == method]
        worse = [row for row in runs if row["cost_after"] > row["cost_before"]]
        lines.append([
            _marked(method, labels),
            str(len(runs)),
            f"{sum(row['accepted'] for row in runs) / len(runs):.0%}",
            f"{len(worse) / len(runs):.1%}",
            f"{sum(row['accepted'] for row in worse) / len(runs):.1%}",
        ])  # fmt: skip
    return table(["method", "runs", "accepted", "proposal worse on test", "accepted and worse on test"], lines)


def problem_tables(rows: Sequence[Row], view: View) -> str:
    """One table a problem: methods by budgets."""
    some = standings(rows, view)
    problems = {row["problem"]: row for row in rows}
    order = list(_KINDS)
    ordered = sorted(problems, key=lambda name: (order.index(problems[name]["kind"]), name))
    return "\n\n".join(_problem_table(problems[name], [one for one in some if one.problem == name]) for name in ordered)


def _problem_table(row: Row, some: Sequence[Standing]) -> str:
    budgets = sorted({one.queries for one in some})
    cells = {(one.method, one.queries): one for one in some}
    last = sorted([one for one in some if one.queries == budgets[-1]], key=lambda one: one.rank)
    lines = [
        [_marked(one.method, one.needs_labels), *(_figure(cells.get((one.method, queries))) for queries in budgets)]
        for one in last
    ]
    title = (
        f"**{row['problem']}** ({_KINDS[row['kind']]}): {row['metric']}, {row['goal']}; {row['rows']['test']:,} test "
        f"rows, whose own standard error is {row['cost_standard_error']:.4f}"
    )
    return f"{title}\n\n{table(['method', *map(str, budgets)], lines)}"


def _figure(one: Standing | None) -> str:
    return "" if one is None else f"{one.mean:.4f} ± {one.standard_error:.4f} ({one.rank:g})".replace(" ± nan", "")


def time_table(rows: Sequence[Row]) -> str:
    """Mean seconds of a search at the largest budget."""
    budget = max(row["queries"] for row in rows)
    lines = []
    for method in {row["method"]: None for row in rows}:
        runs = [row for row in rows if row["method"] == method and row["queries"] == budget]
        means = [fmean(row[name] for row in runs) for name in ("queries_used", "seconds", "cpu_seconds")]
        lines.append([method, f"{means[0]:.0f}", f"{means[1]:.1f}", f"{means[2]:.1f}"])
    return table(["method", f"queries used of {budget}", "seconds", "processor seconds"], lines)


def _marked(method: str, labels: bool) -> str:
    return f"{method} †" if labels else method
