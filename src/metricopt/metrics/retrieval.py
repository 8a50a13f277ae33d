"""Metrics of retrieval by embeddings: does each query find items of its own class?

Every row is a query and all others are the gallery; with `separate=True` groups say which is which. A query whose class
has no other item is left out, and stays in the gallery for others to find. Among equally near items those of another
class come first, so that embeddings that are all alike find nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final, get_args

import torch
from torch import Tensor

from metricopt.core.errors import MetricError
from metricopt.core.registry import one_of
from metricopt.metrics.metric import Metric
from metricopt.metrics.named import METRICS, OneMember
from metricopt.metrics.neighbours import Block, Distance, Gallery, Measure, gallery_of, scored
from metricopt.metrics.resampling import ByQuery

MEMORY = 2**26
"""Bytes of similarities at the same time."""


@METRICS.add("recall_at_k")
def recall_at_k(
    k: int | Sequence[int] = 1, *, distance: Distance = "cosine", separate: bool = False, memory: int = MEMORY
) -> Metric:
    """Share of the queries with an item of their class among the `k` nearest; of several k the mean of the shares.

    Args:
        k: How many are looked at, as 1 or (1, 10, 100, 1000).
        distance: "cosine" or "euclidean".
        separate: Whether groups tell queries (1) from items of the gallery (0); 2 is both.
        memory: Bytes of similarities at the same time.

    Example:
        >>> embeddings = torch.tensor([[1.0, 0.0], [0.8, 0.5], [0.9, 0.3], [0.0, 1.0]])
        >>> classes = torch.tensor([0, 0, 1, 1])
        >>> recall_at_k().value(embeddings, classes), recall_at_k((1, 2)).value(embeddings, classes)
        (0.0, 0.375)
    """
    ks = tuple(k) if isinstance(k, Sequence) else (k,)
    if not ks or any(isinstance(each, bool) or not isinstance(each, int) or each < 1 for each in ks):
        raise MetricError(f"k is {k!r}; expected a whole number of 1 or more, or several: SOP's are (1, 10, 100, 1000)")
    name = f"recall@{ks[0]}" if len(ks) == 1 else f"mean recall@{','.join(map(str, ks))}"
    return _metric(RecallAt(ks), name, distance, separate, memory)


@METRICS.add("precision_at_1")
def precision_at_1(*, distance: Distance = "cosine", separate: bool = False, memory: int = MEMORY) -> Metric:
    """Share of the queries whose nearest item is of their class: recall@1 by another name.

    Example:
        >>> precision_at_1().value(torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), torch.tensor([0, 0, 1]))
        1.0
    """
    return _metric(RecallAt((1,)), "precision@1", distance, separate, memory)


@METRICS.add("r_precision")
def r_precision(*, distance: Distance = "cosine", separate: bool = False, memory: int = MEMORY) -> Metric:
    """Mean share of a query's class among its R nearest, R being how many items of its class there are.

    Example:
        >>> embeddings = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.8, 0.3]])
        >>> round(r_precision().value(embeddings, torch.tensor([0, 0, 0, 1])), 4)
        0.5
    """
    return _metric(r_precisions, "r_precision", distance, separate, memory)


@METRICS.add("map_at_r")
def map_at_r(*, distance: Distance = "cosine", separate: bool = False, memory: int = MEMORY) -> Metric:
    """Mean over queries of (1 / R) times the sum, over the R nearest that are of their class, of the precision there.

    Musgrave et al. (2020): it asks that all R items of the class come first, not only one.

    Example:
        >>> embeddings = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.8, 0.3]])
        >>> round(map_at_r().value(embeddings, torch.tensor([0, 0, 0, 1])), 4)
        0.4167
    """
    return _metric(average_precisions_at_r, "map@r", distance, separate, memory)


@final
@dataclass(frozen=True)
class RecallAt:
    """Whether an item of the query's class is among the k nearest; of several k the mean.

    Attributes:
        ks: How many are looked at.
    """

    ks: tuple[int, ...]

    def __call__(self, block: Block) -> Tensor:
        """Scores of a block, (members, queries)."""
        own = block.own
        best = own.amax(2, keepdim=True)
        if self.ks == (1,):  # whether any stranger is as near can be told in one look, how many are takes two
            return (block.nearest_stranger() < best[..., 0]).double()
        strangers = -(own >= best).sum(2)
        # As floats and in place: sums of booleans take ten times as long. Up to 2**24 they are exact.
        strangers = strangers + block.nearness.ge_(best).sum(2)  # as near as the nearest of its class, or nearer
        return torch.stack([strangers < k for k in self.ks]).double().mean(0)


def r_precisions(block: Block) -> Tensor:
    """Share of a query's class among its R nearest, (members, queries)."""
    right, count = _nearest(block)
    return right.sum(2) / count


def average_precisions_at_r(block: Block) -> Tensor:
    """Average precision among a query's R nearest, (members, queries)."""
    right, count = _nearest(block)
    precision = right.cumsum(2) / torch.arange(1, right.shape[2] + 1)
    return (precision * right).sum(2) / count


def _nearest(block: Block) -> tuple[Tensor, Tensor]:
    """Whether each of the R nearest is of the query's class, 0 beyond R, (members, queries, most); and R."""
    count = block.known.sum(1)
    places = block.alike.expand(len(block.nearness), *block.alike.shape)
    values = block.nearness.gather(2, places)
    # One step below what is equally near, which then comes first. Places that only fill up a row may be anything.
    lowered = torch.where(block.known, torch.nextafter(values, torch.full_like(values, -torch.inf)), values)
    nearness = block.nearness.scatter_reduce(2, places, lowered, "amin")
    top = nearness.topk(int(count.max()), dim=2).indices
    member = torch.zeros(nearness.shape[1:], dtype=torch.uint8)
    member.scatter_reduce_(1, block.alike, block.known.to(torch.uint8), "amax")
    right = member.expand(len(top), *member.shape).gather(2, top).double()
    return right * (torch.arange(top.shape[2]) < count.unsqueeze(1)), count.double()


@final
@dataclass(frozen=True)
class QueryScores:
    """A measure's score of each query: `scores(targets, embeddings[, groups])`, each with a leading population.

    Attributes:
        measure: What is measured of a block of queries.
        distance: By which items are near.
        memory: Bytes of similarities at the same time.
        rule: Which rows are queries, and which the gallery.
    """

    measure: Measure
    distance: Distance
    memory: int
    rule: "Roles"

    def __call__(self, targets: Tensor, embeddings: Tensor, roles: Tensor | None = None) -> Tensor:
        """Scores (population, n), NaN of rows that are no queries."""
        if embeddings.ndim != 3 or embeddings.shape[2] < 2:
            raise MetricError(
                f"outputs {tuple(embeddings.shape[1:])} are no embeddings; expected (n, d) with two dimensions or more"
            )
        if not _shared(targets) or not (roles is None or _shared(roles)):
            each = [(slice(i, i + 1), embeddings[i : i + 1]) for i in range(len(embeddings))]
            return torch.cat([self(targets[at], one, None if roles is None else roles[at]) for at, one in each])
        gallery = self.rule.gallery(targets[0].cpu(), None if roles is None else roles[0].cpu())
        return scored(self.measure, embeddings.cpu(), gallery, distance=self.distance, memory=self.memory)


@final
@dataclass(frozen=True)
class MeanOfQueries:
    """The metric itself: the mean of the scores of all queries.

    Attributes:
        scores: Score of each query.
    """

    scores: QueryScores

    def __call__(self, targets: Tensor, embeddings: Tensor, roles: Tensor | None = None) -> Tensor:
        """Values (population,)."""
        return self.scores(targets, embeddings, roles).nanmean(1)


@final
@dataclass(frozen=True)
class Roles:
    """Which rows are queries, and which the gallery.

    Attributes:
        separate: Whether groups are roles; groups that a metric does not ask for are not.
        least: Items that a gallery must have beside the query, as for recall@k.

    Example:
        >>> Roles(separate=False, least=1).answerable(torch.tensor([4, 4, 9]), None).tolist()
        [True, True, False]
    """

    separate: bool
    least: int

    def gallery(self, targets: Tensor, groups: Tensor | None) -> Gallery:
        """Queries and gallery among rows of some classes (n,)."""
        found = gallery_of(targets, groups if self.separate else None)
        items = len(found.items) - (0 if self.separate else 1)
        if self.least > items:
            raise MetricError(
                f"k is {self.least}, but the gallery has {items} items beside the query; expected no more than that: "
                f"choose a smaller k or pass more items"
            )
        return found

    def answerable(self, targets: Tensor, groups: Tensor | None) -> Tensor:
        """Rows that are queries with an answer, (n,)."""
        return self.gallery(targets, groups).answerable


def _metric(measure: Measure, name: str, distance: Distance, separate: bool, memory: int) -> Metric:
    one_of(distance, get_args(Distance), what="distance")
    rule = Roles(separate, max(measure.ks) if isinstance(measure, RecallAt) else 1)
    scores = QueryScores(measure, distance, memory, rule)
    batched = MeanOfQueries(scores)
    return Metric(
        OneMember(batched),
        on="embeddings",
        goal="max",
        name=name if distance == "cosine" else f"{name} ({distance})",
        batched=batched,
        groups=separate,
        resampling=ByQuery(scores=scores, answerable=rule.answerable),
    )


def _shared(rows: Tensor) -> bool:
    return len(rows) == 1 or rows.stride(0) == 0 or bool((rows == rows[:1]).all())
