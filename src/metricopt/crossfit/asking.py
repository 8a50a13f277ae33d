"""The metric asked about out-of-fold outputs, within a number of queries."""

import math
from typing import final

import torch
from torch import Tensor

from metricopt.task.oracle import Oracle
from metricopt.task.out_of_fold import OutOfFoldTask
from metricopt.task.predictions import Predictions

_NUMBERS_AT_ONCE = 2**26


@final
class Asking:
    """Costs of outputs of some or all rows, each a query of the oracle.

    Args:
        oracle: Asks and counts.
        task: The oracle's task.
        queries: How many may be made.

    Attributes:
        history: For each query so far: how good what it was about is on all rows, and its phi.
    """

    def __init__(self, oracle: Oracle, task: OutOfFoldTask, *, queries: int) -> None:
        self.oracle, self.task = oracle, task
        self._end = oracle.ledger.used + queries

    @property
    def at_once(self) -> int:
        """How many questions are asked at the same time: one, or as many as there are workers."""
        return 1 if self.oracle.crew is None else self.oracle.crew.count

    @property
    def left(self) -> int:
        """Queries left; none after too many failures."""
        return 0 if self.oracle.ledger.stopped else self._end - self.oracle.ledger.used

    def costs(self, phi: Tensor, outputs: Tensor, *, stage: str, rows: Tensor | None = None) -> Tensor:
        """Costs (as many of the members as queries are left), infinite where the metric failed.

        Args:
            phi: What is asked about, for the record, (members, dim).
            outputs: What the metric sees, (members, n, ...).
            stage: Which part of the search asks.
            rows: Rows that the outputs are about, (n,); all if None.
        """
        found = [torch.zeros(0, dtype=torch.float64)]
        at_once = max(1, _NUMBERS_AT_ONCE // max(1, outputs[0].numel()))
        for start in range(0, len(phi), at_once):
            some = slice(start, min(start + at_once, start + max(0, self.left)))
            if some.stop <= start:
                break
            shown = Predictions(phi[some], outputs[some], rows=rows)
            found.append(self.oracle.observe(phi[some], stage=stage, shown=shown))
        return torch.cat(found).nan_to_num(nan=math.inf)
