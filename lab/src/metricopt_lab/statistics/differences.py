"""Paired differences in cost, with what so few of them can tell."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nan, sqrt
from statistics import fmean, stdev
from typing import Literal

from metricopt_lab.markdown import short

Seen = Literal["lower", "higher", "no difference is resolved", "one seed tells nothing", "not measured"]


@dataclass(frozen=True)
class Difference:
    """Differences of two things, one a seed.

    Attributes:
        found: None at all if one of the two was not measured.

    Example:
        >>> print(Difference((-0.1, -0.2, -0.3)))
        -.2000 ± .1155, lower (below 0 in 3 of 3 seeds)
        >>> Difference((-0.1, 0.3)).seen
        'no difference is resolved'
    """

    found: Sequence[float]

    @property
    def mean(self) -> float:
        """Over seeds; NaN without any."""
        return fmean(self.found) if self.found else nan

    @property
    def doubt(self) -> float:
        """Two standard errors of the mean; infinite for less than two seeds."""
        return 2 * stdev(self.found) / sqrt(len(self.found)) if len(self.found) > 1 else inf

    @property
    def seen(self) -> Seen:
        """What can be said of the sign: something beyond two standard errors only."""
        if len(self.found) < 2:
            return "one seed tells nothing" if self.found else "not measured"
        if abs(self.mean) <= self.doubt:
            return "no difference is resolved"
        return "lower" if self.mean < 0 else "higher"

    def __str__(self) -> str:
        if not self.found:
            return self.seen
        mean = short(self.mean, sign=True)
        if len(self.found) < 2:
            return f"{mean}, {self.seen}"
        below = sum(each < 0 for each in self.found)
        return f"{mean} ± {short(self.doubt)}, {self.seen} (below 0 in {below} of {len(self.found)} seeds)"
