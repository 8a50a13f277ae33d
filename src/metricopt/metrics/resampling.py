"""How a metric is asked about other rows of the same origin: what is drawn, and whether it may be drawn twice.

Rows of most metrics are independent, and a resample of them is as good as new data. Those of a retrieval metric are
not: an image drawn twice finds itself, and images of one class stand or fall together.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, final

import torch
from torch import Tensor

from metricopt.core.errors import MetricError


@dataclass(frozen=True, kw_only=True)
class Resampling:
    """What is drawn: rows, one by one, with replacement.

    Attributes:
        repeats: Whether a row may be drawn twice; if not, folds of the rows are left out in turn.
        by_class: Whether no class may be in two sets of data.

    Example:
        >>> ROWS.units((torch.tensor([0, 0, 1]), None), 3), ROWS.calls(500), ROWS.repeats, LEFT_OUT.repeats
        (3, 501, True, False)
    """

    repeats: bool = True
    by_class: ClassVar[bool] = False

    def units(self, truth: tuple[object, Tensor | None], rows: int) -> int:  # noqa: ARG002
        """How many there are to draw from: rows."""
        return rows

    def calls(self, resamples: int) -> int:
        """Calls of the metric that its value and so many resamples take."""
        return resamples + 1

    def check(self, targets: Tensor, groups: Tensor | None, *, name: str, data: str) -> None:
        """Raise unless the metric `name` can be asked about a set of data; rows need no more than the metric itself."""


ROWS, LEFT_OUT = Resampling(), Resampling(repeats=False)


class ByClass(NamedTuple):
    """Sums and numbers of the scores of each class' queries.

    Example:
        >>> by_class = ByClass(torch.tensor([2.0, 1.0]), torch.tensor([2.0, 2.0]))
        >>> by_class.values(torch.tensor([[0, 1], [0, 0]])).tolist()
        [0.75, 1.0]
    """

    sums: Tensor
    counts: Tensor

    def values(self, choices: Tensor) -> Tensor:
        """Mean score of the queries of each choice of classes (choices, k)."""
        return self.sums[choices].sum(1) / self.counts[choices].sum(1)


Scores = Callable[..., Tensor]
"""From targets (population, n), embeddings (population, n, d) and groups, if it takes them, to a score a query,
(population, n), NaN of rows that are no queries."""


@final
@dataclass(frozen=True, kw_only=True)
class ByQuery(Resampling):
    """What is drawn: the queries of whole classes, with replacement; the gallery stays as it is.

    The metric is the mean of its queries' scores, so that one call gives every resample.

    Attributes:
        scores: Score of each query.
        answerable: From targets and groups, each (n,), to the rows that are queries with an answer, (n,); raises where
            there is none.
    """

    scores: Scores
    answerable: Callable[[Tensor, Tensor | None], Tensor]
    by_class: ClassVar[bool] = True

    def units(self, truth: tuple[object, Tensor | None], rows: int) -> int:  # noqa: ARG002
        """Classes that have queries with an answer."""
        targets, groups = truth
        assert isinstance(targets, Tensor)
        return len(torch.unique(targets[self.answerable(targets, groups)]))

    def calls(self, resamples: int) -> int:  # noqa: ARG002
        """One, whatever is resampled."""
        return 1

    def check(self, targets: Tensor, groups: Tensor | None, *, name: str, data: str) -> None:
        """Raise unless some query has an answer."""
        try:
            self.answerable(targets, groups)
        except MetricError as error:
            raise MetricError(f"metric {name!r} on {data}: {error}") from None

    def summed(self, scores: Tensor, targets: Tensor, groups: Tensor | None) -> ByClass:
        """Scores (n,) of one member added up by class."""
        known = self.answerable(targets, groups)
        _, code = torch.unique(targets[known], return_inverse=True)
        count = int(code.max()) + 1
        sums = torch.zeros(count, dtype=torch.float64).index_add_(0, code, scores[known].double())
        return ByClass(sums, torch.bincount(code, minlength=count).double())
