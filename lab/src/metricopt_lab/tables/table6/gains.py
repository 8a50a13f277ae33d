"""Gains in AP50 over five folds of images, with both ways to doubt them."""

import math
from collections.abc import Sequence
from statistics import mean, stdev
from typing import NamedTuple

import numpy as np

from metricopt_lab.cells import Record
from metricopt_lab.statistics.paired import Paired, paired
from metricopt_lab.tables.table6.methods import OURS


class Gain(NamedTuple):
    """Mean gain over folds, each of other test images.

    Attributes:
        mean: Over the folds.
        spread: Standard deviation over the folds.
        low: Of the 95% interval of resampled images, fold by fold.
        high: Of it.
        folds: How many there are.
        test: The paired t-test over the folds.
    """

    mean: float
    spread: float
    low: float
    high: float
    folds: int
    test: Paired

    @property
    def verdict(self) -> str:
        """What both the resampled images and the folds say; nothing is resolved unless they agree."""
        if self.folds < 2:
            return "one fold tells nothing"
        if self.low > 0 and self.test.verdict == "win":
            return "better"
        return "worse" if self.high < 0 and self.test.verdict == "loss" else "not resolved"


def gain_of(records: Sequence[Record], method: str, rival: str = "frozen") -> Gain | None:
    """Gain of a method over a rival on the folds that both have; None if there is none.

    Example:
        >>> record = dict(method="cma_es", seed=0, gain=0.1, resampled_gains=[0.09, 0.11], accepted=True)
        >>> gain_of([record, {**record, "method": "frozen", "gain": 0.0, "resampled_gains": [0.0, 0.0]}], "cma_es").mean
        0.1
    """
    mine, theirs = ({r["seed"]: returned(r) for r in records if r["method"] == name} for name in (method, rival))
    folds = sorted(mine.keys() & theirs.keys())
    if not folds:
        return None
    gains = [mine[fold]["gain"] - theirs[fold]["gain"] for fold in folds]
    resampled = np.mean(
        [np.subtract(mine[fold]["resampled_gains"], theirs[fold]["resampled_gains"]) for fold in folds], 0
    )
    low, high = np.quantile(resampled, [0.025, 0.975])
    test = paired({f: -mine[f]["gain"] for f in folds}, {f: -theirs[f]["gain"] for f in folds})
    return Gain(mean(gains), stdev(gains) if len(gains) > 1 else math.nan, float(low), float(high), len(folds), test)


def returned(record: Record) -> Record:
    """What a user gets: of MetricOpt's search the original, unless the proposal was accepted."""
    if record["method"] not in OURS or record["accepted"]:
        return record
    nothing = [0.0] * len(record["resampled_gains"])
    return {**record, "gain": 0.0, "after": record["before"], "resampled_gains": nothing}
