"""Claims of the paper about its tables, each with one verdict: confirmed, not confirmed, or not resolvable here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from metricopt_lab.markdown import table
from metricopt_lab.statistics.paired import student_reach

PAPER, OURS = "metricopt_paper", "metricopt"
PRESETS = (PAPER, "metricopt_paper_advanced", "metricopt_letter")
"""Rows of the paper's presets, which have a version of their own: `metricopt.paper.preset.PAPER_VERSION`."""


@dataclass(frozen=True)
class Claim:
    """MetricOpt is better than a rival.

    Attributes:
        text: The claim in words.
        rivals: Rows of the rival; the one with the highest gain stands for it.
        published: By how much, in units of the metric, positive is better.
        methods: Rows that stand for the paper's method and for ours.
        metric: By which metric, where a table has several.
    """

    text: str
    rivals: tuple[str, ...]
    published: float
    methods: tuple[str, str] = (PAPER, OURS)
    metric: str = ""


class Difference(NamedTuple):
    """By how much a method is better than a rival, with a standard error.

    Attributes:
        mean: The difference.
        error: Its standard error.
        seeds: Over how many it was taken, for Student's t; None where something else than seeds is uncertain.

    Example:
        >>> Difference(0.02, 0.008).low > 0, Difference(0.02, 0.008, seeds=5).low > 0
        (True, False)
    """

    mean: float
    error: float
    seeds: int | None = None

    @property
    def half(self) -> float:
        """Half of a 95% interval; without end of a single seed."""
        return (1.96 if self.seeds is None else student_reach(self.seeds)) * self.error

    @property
    def low(self) -> float:
        """Of a 95% interval."""
        return self.mean - self.half

    @property
    def high(self) -> float:
        """Of a 95% interval."""
        return self.mean + self.half


Find = Callable[[Claim, str], Difference | None]
"""From a claim and the method that stands for MetricOpt to the difference; None where a row was not measured."""


def verdict(found: Difference | None, published: float) -> str:
    """What a difference says of a published one.

    Example:
        >>> [verdict(each, 0.02) for each in (Difference(0.03, 0.01), Difference(0.0, 0.005), Difference(0.0, 0.02))]
        ['confirmed', 'not confirmed', 'not resolvable here']
    """
    if found is None:
        return "not measured"
    if found.low > 0:
        return "confirmed"
    return "not confirmed" if found.high < max(published, 0.0) else "not resolvable here"


def claims_table(claims: Sequence[Claim], find: Find, *, scale: float = 1.0, digits: int = 4) -> str:
    """One line a claim: published, found with the paper's recipe, the verdict on it, and found with our search.

    Args:
        claims: The claims.
        find: Looks up a difference.
        scale: What figures are multiplied by, such as 100 for percent.
        digits: After the point.
    """

    def shown(found: Difference | None) -> str:
        if found is None:
            return "—"
        return f"{scale * found.mean:+.{digits}f} ± {scale * found.error:.{digits}f}"

    rows = []
    for claim in claims:
        paper, ours = (find(claim, method) for method in claim.methods)
        rows.append(
            [claim.text, f"{scale * claim.published:+.{digits}f}", shown(paper), verdict(paper, claim.published),
             shown(ours)]
        )  # fmt: skip
    return table(["claim", "published", "the paper's recipe here", "verdict", "our default search here"], rows)


WORDS = """\
A claim is confirmed if the 95% interval of the difference (Student's t; shown is its standard error) is above 0, not
confirmed if it is not and ends below the published difference, and not resolvable here if it holds both 0 and the
published difference. Of a rival with a row for phi and one for weights, the better one counts."""
