"""A retrieval metric within parts of the rows: each query looks for its answer among the classes of its own part.

Embeddings by different networks do not compare. Where every fold of the classes is embedded by a network of its own,
each fold is a gallery of its own, and the value is the mean over the queries of all of them.
"""

from typing import final

import numpy as np
import torch
from torch import Tensor

from metricopt.metrics.metric import Metric
from metricopt.metrics.resampling import ByQuery


@final
class WithinParts:
    """The functions of such a metric; each question asks the metric itself about one part after the other.

    Args:
        metric: The metric itself, resampled by query.
        labels: Classes that have a part, in order, (k,).
        part_of: The part of each, from 0, (k,). Classes that are not listed are a part of their own.

    Attributes:
        metric: The metric itself.
        beyond: Calls of it so far beyond one a question.
    """

    def __init__(self, metric: Metric, labels: Tensor, part_of: Tensor) -> None:
        assert isinstance(metric.resampling, ByQuery)
        self.metric, self._own = metric, metric.resampling
        self._labels, self._part_of = labels, part_of
        self.beyond = 0

    @property
    def parts(self) -> int:
        """How many parts there are."""
        return int(self._part_of.max()) + 1

    def __call__(self, *arrays: np.ndarray) -> float:
        """Value for `(y_true, embeddings)` and, if the metric takes them, groups."""
        return float(self.values(*(torch.as_tensor(array)[None] for array in arrays))[0])

    def values(self, targets: Tensor, embeddings: Tensor, groups: Tensor | None = None) -> Tensor:
        """Mean score of all queries, (population,)."""
        return self.scores(targets, embeddings, groups).nanmean(1)

    def scores(self, targets: Tensor, embeddings: Tensor, groups: Tensor | None = None) -> Tensor:
        """Score of each query in the gallery of its part, (population, n), NaN of rows that are no queries."""
        found = torch.full(targets.shape[:2], torch.nan, dtype=torch.float64)
        split = self._split(targets[0])
        for rows in split:
            of_rows = () if groups is None else (groups[:, rows],)
            found[:, rows] = self._own.scores(targets[:, rows], embeddings[:, rows], *of_rows).double()
        self.beyond += len(embeddings) * (len(split) - 1)
        return found

    def answerable(self, targets: Tensor, groups: Tensor | None) -> Tensor:
        """Rows that are queries with an answer in their part, (n,); raises if a part has none."""
        found = torch.zeros(len(targets), dtype=torch.bool)
        for rows in self._split(targets):
            found[rows] = self._own.answerable(targets[rows], None if groups is None else groups[rows])
        return found

    def _split(self, targets: Tensor) -> list[Tensor]:
        """Rows of each part that has some."""
        targets = targets.flatten().to(self._labels)
        place = torch.searchsorted(self._labels, targets).clamp(max=len(self._labels) - 1)
        part = torch.where(self._labels[place] == targets, self._part_of[place], -1)
        return [(part == each).nonzero()[:, 0] for each in torch.unique(part)]


def within_parts(metric: Metric, classes: Tensor, part_of: Tensor) -> Metric:
    """The metric with a gallery for each part of the classes.

    Args:
        metric: One that is resampled by query.
        classes: Of some rows, (n,).
        part_of: The part of each row, the same for all rows of a class, (n,).

    Example:
        >>> from metricopt.metrics import recall_at_k
        >>> embeddings = torch.tensor([[1.0, 0.0], [0.8, 0.5], [0.9, 0.3], [0.0, 1.0]])
        >>> classes = torch.tensor([0, 0, 1, 1])
        >>> recall_at_k().value(embeddings, classes)  # of either class one is nearer to the other
        0.0
        >>> within_parts(recall_at_k(), classes, torch.tensor([0, 0, 1, 1])).value(embeddings, classes)
        1.0
    """
    assert isinstance(metric.resampling, ByQuery)
    labels, where = torch.unique(classes, return_inverse=True)
    of_label = torch.zeros(len(labels), dtype=torch.long).index_put_((where,), part_of)
    function = WithinParts(metric, labels, of_label)
    return Metric(
        function,
        on=metric.on,
        goal=metric.goal,
        bounds=metric.bounds,
        name=metric.name,
        batched=function.values,
        groups=metric.groups,
        time_limit=metric.time_limit,
        costly=metric.costly,
        resampling=ByQuery(scores=function.scores, answerable=function.answerable),
    )


def as_a_whole(metric: Metric) -> Metric:
    """The metric that was asked about within parts; any other as it is.

    Example:
        >>> from metricopt.metrics import recall_at_k
        >>> metric = recall_at_k()
        >>> as_a_whole(within_parts(metric, torch.tensor([0, 1]), torch.tensor([0, 1]))) is metric
        True
    """
    return metric.function.metric if isinstance(metric.function, WithinParts) else metric
