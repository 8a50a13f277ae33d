"""Two methods on the same seeds: the paired difference, and what may be said about it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

LEVEL = 0.05


@dataclass(frozen=True)
class Paired:
    """Gain of one method over another in units of cost, paired over seeds; positive is better.

    Attributes:
        mean: Mean gain.
        standard_error: Of that mean; NaN for fewer than two seeds.
        p_better: Of the one-sided paired t-test that there is no gain.
        p_worse: Of the one-sided paired t-test that there is no loss.
        seeds: How many seeds both have.

    Example:
        >>> gain = paired({0: 0.20, 1: 0.21, 2: 0.19}, {0: 0.30, 1: 0.32, 2: 0.31})
        >>> round(gain.mean, 2), gain.verdict, gain.not_worse
        (0.11, 'win', True)
    """

    mean: float
    standard_error: float
    p_better: float
    p_worse: float
    seeds: int

    @property
    def not_worse(self) -> bool:
        """Whether it is worse by at most one standard error; with one seed, whether it is not worse at all."""
        return self.mean >= -(0.0 if math.isnan(self.standard_error) else self.standard_error)

    @property
    def better(self) -> bool:
        """Whether it is significantly better."""
        return self.p_better < LEVEL

    @property
    def verdict(self) -> Literal["win", "tie", "loss"]:
        """Win or loss if significant, else a tie."""
        return "win" if self.better else "loss" if self.p_worse < LEVEL else "tie"


def student_reach(seeds: int) -> float:
    """How many standard errors a 95% interval of a mean over so many seeds reaches to either side, by Student's t.

    Example:
        >>> round(student_reach(5), 2), student_reach(1)
        (2.78, inf)
    """
    return float(stats.t.ppf(1 - LEVEL / 2, seeds - 1)) if seeds > 1 else math.inf


def paired(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Paired:
    """Gain of `ours` over `theirs`, costs by seed; seeds that only one of them has are left out.

    Example:
        >>> paired({0: 0.2, 1: 0.2}, {0: 0.2, 1: 0.2, 2: 0.9}).verdict
        'tie'
    """
    seeds = sorted(set(ours) & set(theirs))
    gains = np.array([theirs[seed] - ours[seed] for seed in seeds], dtype=float)
    if len(gains) < 2:
        return Paired(float(gains.mean()) if len(gains) else math.nan, math.nan, math.nan, math.nan, len(gains))
    mean, error = float(gains.mean()), float(gains.std(ddof=1) / math.sqrt(len(gains)))
    # Equal gains have no spread to test against: all there is to say is their sign.
    if error <= 1e-12:
        p_better = 0.0 if mean > 1e-12 else 1.0
        return Paired(mean, error, p_better, 0.0 if mean < -1e-12 else 1.0, len(gains))
    p_better = float(stats.t.sf(mean / error, len(gains) - 1))
    return Paired(mean, error, p_better, 1.0 - p_better, len(gains))
