"""The records of a half as Markdown."""

from collections.abc import Sequence
from statistics import fmean, stdev

from metricopt_lab.cells import Record
from metricopt_lab.markdown import table
from metricopt_lab.problems.zoo import PROBLEMS, Half
from metricopt_lab.quality.acceptance import verdicts
from metricopt_lab.quality.duels import duel
from metricopt_lab.quality.gains import (
    LEAST_BEST,
    LEVEL,
    Normalised,
    best_gains,
    difference,
    gains,
    mean_of,
    normalised,
    seen,
    told,
)  # fmt: skip
from metricopt_lab.quality.methods import LIBRARIES
from metricopt_lab.quality.recipes import by_recipe, widest
from metricopt_lab.quality.targets import OURS, targets
from metricopt_lab.quality.timing import cpu_seconds, network_of

_NOTHING = 0.005  # what is shown as no difference

TITLES = {"development": "Development half: looked at while the method was made", "final": "Final half: measured once"}


def markdown(records: Sequence[Record], half: Half) -> str:
    """All tables of a half."""
    main = widest(records)
    parts = [f"# {TITLES[half]}", introduction(main)]
    parts += target_table(main)
    for visible, title in ((True, "Labels visible"), (False, "Labels hidden")):
        some = seen(main, labels_visible=visible)
        if some:
            parts += sections(some, title)
    parts += ["## What acceptance costs", acceptance_table(main)]
    for version, some in by_recipe(records).items():
        if any(record not in main for record in some):
            parts += other_recipe(version, seen(some, labels_visible=True))
    return "\n\n".join(parts) + "\n"


def target_table(records: Sequence[Record]) -> list[str]:
    """The targets with their heading; nothing if the records cannot tell of any."""
    judged = targets(records)
    if not judged:
        return []
    words = {True: "met", False: "**missed**", None: "not measured"}
    return ["## Targets", table(["target", "", "found"], [[t.name, words[t.met], t.found] for t in judged])]


def other_recipe(version: int, records: Sequence[Record]) -> list[str]:
    """What there is of a version of ours that was measured on fewer problems."""
    seeds, problems = sorted({record["seed"] for record in records}), {record["problem"] for record in records}
    title = f"Version {version} of ours, labels visible"
    told = f"Seeds {', '.join(map(str, seeds))}; {len(problems)} problems, not all of them with every seed."
    return [f"## {title}", told, *sections(records, title), "## What its acceptance costs", acceptance_table(records)]


def introduction(records: Sequence[Record]) -> str:
    """Which problems, seeds and budgets, and what the figures mean."""
    seeds, budgets = (sorted({record[name] for record in records}) for name in ("seed", "queries"))
    problems = {record["problem"] for record in records}
    hidden = sum(not PROBLEMS[problem].labels_visible for problem in problems)
    return (
        f"{len(problems)} problems, {hidden} of them with hidden labels; seeds {seeds[0]} to {seeds[-1]}; budgets of "
        f"{', '.join(f'{budget:,}' for budget in budgets)} calls of the metric. Normalised gain: gain over the "
        f"pre-trained network on test rows, divided by the best gain that any method with all seeds reached on the "
        f"problem (or by {LEAST_BEST:g}, if nobody reached that), a loss counting -1 at most. Its mean over problems, "
        f"with a {LEVEL:.0%} interval by a bootstrap of problems and seeds."
    )


def sections(records: Sequence[Record], title: str) -> list[str]:
    """All tables about problems of one kind of labels."""
    parts = [f"## {title}: normalised gain", gain_table(records)]
    if any(record["method"] == OURS for record in records):
        parts += [f"## {title}: {OURS} against each rival", DUEL_NOTE, duel_table(records), needed_table(records)]
    if any(record["method"] in LIBRARIES for record in records):
        parts += [f"## {title}: seconds per suggestion", SUGGESTION_NOTE, suggestion_table(records)]
    return [*parts, f"## {title}: processor seconds", time_table(records),
            f"## {title}: gain by problem", problem_table(records)]  # fmt: skip


DUEL_NOTE = (
    "Problems won / tied / lost by more than one standard error of the paired difference over seeds (in parentheses: "
    "significantly better, worse; one-sided t-test, p < 0.05), and the difference of the mean normalised gains."
)


def ordered(records: Sequence[Record]) -> list[str]:
    """Methods, best first by the mean over their budgets; ours stay on top."""
    found = normalised(records)
    names = dict.fromkeys(record["method"] for record in records)
    worth = {name: fmean(mean_of(by) for (method, _), by in found.items() if method == name) for name in names}
    return sorted(names, key=lambda name: (not name.startswith(OURS), -worth[name]))


def gain_table(records: Sequence[Record]) -> str:
    """Mean normalised gain of each method at each budget."""
    found, budgets = normalised(records), _budgets(records)
    lines = []
    for method in ordered(records):
        count = max(len(each) for (name, _), each in found.items() if name == method)
        means = [told(found, method, queries) if (method, queries) in found else "" for queries in budgets]
        lines.append([method, str(count), *means])
    return table(["method", "problems", *(f"{queries:,}" for queries in budgets)], lines)


def duel_table(records: Sequence[Record]) -> str:
    """Wins, ties and losses of ours against each other method, at each budget, and the difference."""
    found, budgets = normalised(records), _budgets(records)
    lines = []
    for rival in ordered(records):
        if rival == OURS:
            continue
        cells = []
        for queries in budgets:
            both = (OURS, queries) in found and (rival, queries) in found
            gap = difference(found[OURS, queries], found[rival, queries]) if both else None
            cells.append(f"{duel(records, OURS, rival, queries)}; {gap.mean:+.2f} ({gap.low:+.2f} .. {gap.high:+.2f})"
                         if gap else "")  # fmt: skip
        lines.append([rival, *cells])
    return table(["against", *(f"{queries:,}" for queries in budgets)], lines)


def needed_table(records: Sequence[Record]) -> str:
    """At which budget each rival has what ours has at the smallest, on the problems that both have."""
    found, budgets = normalised(records), _budgets(records)
    names = [name for name in ordered(records) if not name.startswith(OURS)] if (OURS, budgets[0]) in found else []
    lines = [[rival, queries_needed(found, rival, budgets)] for rival in names]
    return table(["rival", f"calls it needs for what {OURS} has at {budgets[0]}"], lines)


def queries_needed(found: dict[tuple[str, int], Normalised], rival: str, budgets: Sequence[int]) -> str:
    """The smallest budget at which a rival's mean is not below ours at the first one, in words."""
    measured = [queries for queries in budgets if (rival, queries) in found]
    for queries in measured:
        if difference(found[OURS, budgets[0]], found[rival, queries]).mean < _NOTHING:
            return f"{queries:,} or fewer" if queries == budgets[0] else f"{queries:,}"
    return f"more than {measured[-1]:,}" if measured else "not measured"


def time_table(records: Sequence[Record]) -> str:
    """Mean processor seconds by kind of network, at the smallest and the largest budget."""
    kinds, budgets = sorted({network_of(record["problem"]) for record in records}), _budgets(records)
    shown = [(queries, kind) for queries in dict.fromkeys((budgets[0], budgets[-1])) for kind in kinds]
    taken = {queries: cpu_seconds(records, queries) for queries in budgets}
    lines = [
        [method, *(_number(taken[queries].get((method, kind))) for queries, kind in shown)]
        for method in ordered(records)
    ]
    return table(["method", *(f"{kind}, {queries:,}" for queries, kind in shown)], lines)


SUGGESTION_NOTE = (
    "Processor seconds over queries, the answer of the metric in them: random_search, which has nothing to think "
    "about, shows what that takes; metricopt's starts and its decision are in them. Means over problems and seeds."
)


def suggestion_table(records: Sequence[Record]) -> str:
    """Mean processor seconds a call of each method at each budget."""
    budgets, lines = _budgets(records), []
    for method in ordered(records):
        cells = []
        for queries in budgets:
            some = [r["cpu_seconds"] / min(r["calls"], queries) for r in records
                    if (r["method"], r["queries"]) == (method, queries) and r["offered"]]  # fmt: skip
            cells.append(f"{fmean(some):.3f}" if some else "")
        lines.append([method, *cells])
    return table(["method", *(f"{queries:,}" for queries in budgets)], lines)


def problem_table(records: Sequence[Record]) -> str:
    """Gains on every problem at 150 calls, or at the budget nearest to it, in points with standard errors."""
    queries = min(_budgets(records), key=lambda budget: abs(budget - 150))
    found, methods, best = gains(records), ordered(records), best_gains(records)
    lines = []
    for problem in dict.fromkeys(record["problem"] for record in records):
        some = [record for record in records if record["problem"] == problem]
        before = fmean({record["seed"]: record["cost_before"] for record in some}.values())
        cells = [_points(found.get((problem, method, queries))) for method in methods]
        about = f"{problem} ({some[0]['metric']}, {PROBLEMS[problem].kind})"
        lines.append([about, f"{before:.4f}", f"{100 * best[problem]:.2f}", *cells])
    note = f"In points (hundredths) of cost at {queries} calls, mean ± standard error over seeds."
    return f"{note}\n\n{table(['problem', 'cost before', 'best gain', *methods], lines)}"


def acceptance_table(records: Sequence[Record]) -> str:
    """How often each of ours accepted, was worse, and turned down what was better."""
    offered = [record for record in records if record["offered"]]
    lines = []
    for method in dict.fromkeys(record["method"] for record in offered if record["method"].startswith(OURS)):
        said = verdicts(offered, method, among=offered)
        if said is not None:
            lines.append([method, str(said.runs), str(said.accepted), str(said.worse), str(said.rejected_better),
                          f"{said.lost:.1%}"])  # fmt: skip
    header = ["method", "runs", "accepted", "accepted and worse on test", "rejected though better", "gain lost so"]
    return table(header, lines) if lines else "Not measured yet."


def _budgets(records: Sequence[Record]) -> list[int]:
    return sorted({record["queries"] for record in records})


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _points(by_seed: dict[int, float] | None) -> str:
    if not by_seed:
        return ""
    values = [100 * gain for gain in by_seed.values()]
    return f"{fmean(values):+.2f}" + (f" ± {stdev(values) / len(values) ** 0.5:.2f}" if len(values) > 1 else "")
