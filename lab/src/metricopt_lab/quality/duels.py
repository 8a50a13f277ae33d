"""One method against another, problem by problem, paired over seeds."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from metricopt_lab.cells import Record
from metricopt_lab.quality.gains import gains
from metricopt_lab.statistics.paired import Paired, paired

Word = Literal["win", "tie", "loss"]


@dataclass(frozen=True)
class Duel:
    """Problems won, tied and lost by more than one standard error, and those of them that are significant.

    Example:
        >>> print(Duel(5, 2, 1, better=3, worse=0))
        5 / 2 / 1 (3, 0)
    """

    wins: int
    ties: int
    losses: int
    better: int
    worse: int

    def __str__(self) -> str:
        return f"{self.wins} / {self.ties} / {self.losses} ({self.better}, {self.worse})"


def differences(records: Sequence[Record], ours: str, theirs: str, queries: int) -> dict[str, Paired]:
    """Gain of `ours` over `theirs` on each problem that both have at a budget."""
    # Costs are what `paired` takes; a gain is a cost with the other sign.
    table = {key: {seed: -gain for seed, gain in by_seed.items()} for key, by_seed in gains(records).items()}
    return {problem: paired(table[problem, ours, queries], costs)
            for (problem, method, budget), costs in table.items()
            if method == theirs and budget == queries and (problem, ours, queries) in table}  # fmt: skip


def word(gain: Paired) -> Word:
    """Win or loss by more than one standard error of the paired difference, else a tie.

    Example:
        >>> word(paired({0: 0.1, 1: 0.1}, {0: 0.2, 1: 0.3})), word(paired({0: 0.1}, {0: 0.1}))
        ('win', 'tie')
    """
    error = 0.0 if gain.seeds < 2 else gain.standard_error
    return "win" if gain.mean > error else "loss" if gain.mean < -error else "tie"


def duel(records: Sequence[Record], ours: str, theirs: str, queries: int) -> Duel:
    """All problems at a budget."""
    found = differences(records, ours, theirs, queries)
    words = Counter(word(gain) for gain in found.values())
    better = sum(gain.better for gain in found.values())
    worse = sum(gain.verdict == "loss" for gain in found.values())
    return Duel(words["win"], words["tie"], words["loss"], better, worse)
