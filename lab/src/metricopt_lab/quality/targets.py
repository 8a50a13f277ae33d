"""What the benchmark is to show, one target after the other: met or missed, and by how much."""

from collections.abc import Sequence
from dataclasses import dataclass

from metricopt_lab.cells import Record
from metricopt_lab.quality.acceptance import verdicts
from metricopt_lab.quality.duels import differences
from metricopt_lab.quality.gains import LEVEL, difference, gains, interval, mean_of, normalised, seen
from metricopt_lab.quality.timing import ratio

OURS, QUICK = "metricopt", "metricopt_quick"
FINETUNE = ("finetune_bias", "finetune_refit_bias")
NOT_WORSE, BETTER, LOST, DEFAULT_RATIO, QUICK_RATIO = 0.9, 0.5, 0.2, 8.0, 3.0


@dataclass(frozen=True)
class Target:
    """A target and how it went; `met` is None if the records cannot tell."""

    name: str
    met: bool | None
    found: str


def targets(records: Sequence[Record]) -> list[Target]:
    """Every target that the records can tell about."""
    visible, hidden = (seen(records, labels_visible=each) for each in (True, False))
    found: list[Target] = []
    for queries in (150, 500):
        if {OURS, FINETUNE[0]} <= _methods(visible, queries):
            found += [not_worse(visible, queries), better(visible, queries), highest(visible, queries)]
    if OURS in _methods(hidden, 50) and len(_methods(hidden, 500)) > 1:
        found.append(fewer_queries(hidden))
    found += [*acceptance(records), *seconds(visible)]
    return found


def rivals(records: Sequence[Record], queries: int) -> list[str]:
    """Methods at a budget that are not ours."""
    return sorted(name for name in _methods(records, queries) if not name.startswith(OURS))


def not_worse(records: Sequence[Record], queries: int) -> Target:
    """On how many problems no rival is ahead by more than one standard error."""
    behind = dict[str, list[str]]()
    problems = {record["problem"] for record in records if record["method"] == OURS and record["queries"] == queries}
    for rival in rivals(records, queries):
        for problem, gain in differences(records, OURS, rival, queries).items():
            if not gain.not_worse:
                behind.setdefault(problem, []).append(f"{rival} by {-gain.mean:.4f}")
    share = 1 - len(behind) / len(problems)
    notes = "; ".join(f"{problem}: {', '.join(names)}" for problem, names in sorted(behind.items()))
    name = f"at {queries}: not worse than any rival by more than one standard error, on 90% of the problems"
    found = f"{len(problems) - len(behind)} of {len(problems)}"
    return Target(name, share >= NOT_WORSE, f"{found} ({notes})" if notes else found)


def better(records: Sequence[Record], queries: int) -> Target:
    """On how many problems it is significantly ahead of finetuning and bias tuning in the better of its two forms."""
    means = {(problem, method): sum(by_seed.values()) / len(by_seed)
             for (problem, method, budget), by_seed in gains(records).items() if budget == queries}  # fmt: skip
    duels = {name: differences(records, OURS, name, queries) for name in FINETUNE if name in rivals(records, queries)}
    problems = {problem for each in duels.values() for problem in each}
    best = {problem: max((name for name in duels if problem in duels[name]), key=lambda name: means[problem, name])
            for problem in problems}  # fmt: skip
    count = sum(duels[best[problem]][problem].better for problem in problems)
    name = f"at {queries}: significantly better than finetuning and bias tuning in its best form on half of them"
    return Target(name, count >= BETTER * len(problems), f"{count} of {len(problems)}")


def highest(records: Sequence[Record], queries: int) -> Target:
    """Whether its mean normalised gain is above every rival's, beyond the interval of the paired difference."""
    table = normalised(records)
    ahead = {rival: difference(table[OURS, queries], table[rival, queries]) for rival in rivals(records, queries)}
    low = min(ahead, key=lambda rival: ahead[rival].low)
    name = f"at {queries}: the highest mean normalised gain, the {LEVEL:.0%} interval of every difference above 0"
    return Target(name, ahead[low].low > 0, f"least against {low}: {ahead[low]}")


def fewer_queries(records: Sequence[Record]) -> Target:
    """Whether 50 queries give what the best label-free rival has at 500."""
    table = normalised(records)
    ours = mean_of(table[OURS, 50])
    best = max(rivals(records, 500), key=lambda rival: mean_of(table[rival, 500]))
    theirs = mean_of(table[best, 500])
    return Target("labels hidden: at 50 what the best rival has at 500", ours >= theirs,
                  f"{ours:.2f} against {theirs:.2f} of {best} ({interval(table[OURS, 50])})")  # fmt: skip


def acceptance(records: Sequence[Record]) -> list[Target]:
    """How often an accepted result was worse, and how much gain was turned down."""
    offered = [record for record in records if record["offered"]]
    said = verdicts(offered, OURS, among=offered)
    if said is None:
        return []
    level = max(record["details"]["wanted_confidence"] for record in offered if record["method"] == OURS)
    rate = said.worse / max(said.accepted, 1)
    return [
        Target(f"accepted and worse on test rows at most at the stated rate ({1 - level:.0%})", rate <= 1 - level,
               f"{said.worse} of {said.accepted} accepted, of {said.runs} runs ({rate:.1%})"),
        Target("gain lost by rejections: at most a fifth of what there was", said.lost <= LOST, f"{said.lost:.1%}"),
    ]  # fmt: skip


def seconds(records: Sequence[Record]) -> list[Target]:
    """Processor seconds beside those of finetuning and bias tuning, at 150 queries."""
    found = []
    for name, most in ((OURS, DEFAULT_RATIO), (QUICK, QUICK_RATIO)):
        times = ratio(records, name, FINETUNE[0], 150)
        if times:
            shown = ", ".join(f"{kind} {value:.1f}" for kind, value in sorted(times.items()))
            name = f"{name}: at most {most:g} times the processor seconds of finetune_bias"
            found.append(Target(name, max(times.values()) <= most, shown))
    return found


def _methods(records: Sequence[Record], queries: int) -> set[str]:
    return {record["method"] for record in records if record["queries"] == queries}
