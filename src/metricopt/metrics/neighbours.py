"""Nearest neighbours among embeddings, exact, block by block: what retrieval metrics are made of.

Each block of queries is multiplied with the whole gallery once. A block is small enough to be looked at before it has
left a processor's own memory, and large enough that little beside the product has to be done for it: 256 queries.
faiss, measured beside it, is faster only by its matrix product
(docs/how-to/retrieval.md), and takes one member at a time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from metricopt.core.errors import MetricError

Distance = Literal["cosine", "euclidean"]

_QUERIES = 256
_PLACE_BYTES = 9  # a place among the items, and whether there is one
_AT_ONCE = 2**21  # similarities of several members, where one has few


class Block(NamedTuple):
    """Some queries of some members against the whole gallery; its nearness may be overwritten, and is by the next.

    Attributes:
        nearness: The larger the nearer, (members, queries, gallery); a query itself is at -inf.
        alike: Gallery places of the items of each query's class, itself left out, (queries, most); any where fewer.
        known: Which of these are such items, (queries, most).
    """

    nearness: Tensor
    alike: Tensor
    known: Tensor

    @property
    def own(self) -> Tensor:
        """Nearness of the items of each query's own class, -inf where there are fewer, (members, queries, most)."""
        places = self.alike.expand(len(self.nearness), *self.alike.shape)
        return self.nearness.gather(2, places).masked_fill(~self.known, -torch.inf)

    def nearest_stranger(self) -> Tensor:
        """Nearness of the nearest item of another class, (members, queries); overwrites that of a query's own class."""
        rows, places = self.known.nonzero(as_tuple=True)
        self.nearness[:, rows, self.alike[rows, places]] = -torch.inf
        return self.nearness.amax(2)


Measure = Callable[[Block], Tensor]
"""Scores of the queries of a block, (members, queries)."""


@dataclass(frozen=True, eq=False)
class Gallery:
    """Which rows are queries, which are found, and which of them belong together.

    Attributes:
        classes: Class of each row, (n,).
        queries: Rows that are queries, (queries,).
        items: Rows that can be found, (items,).

    Example:
        >>> gallery = gallery_of(torch.tensor([5, 5, 7]), None)
        >>> gallery.answerable.tolist()
        [True, True, False]
    """

    classes: Tensor
    queries: Tensor
    items: Tensor

    @cached_property
    def _sorted(self) -> tuple[Tensor, Tensor, Tensor]:
        """Items by class, and for each row where its class begins and how many items it has."""
        _, code = torch.unique(self.classes, return_inverse=True)
        kinds = code[self.items]
        counts = torch.bincount(kinds, minlength=int(code.max()) + 1)
        starts = counts.cumsum(0) - counts
        return kinds.argsort(stable=True), starts[code], counts[code]

    @cached_property
    def _place(self) -> Tensor:
        """Place of each row among the items, -1 if it is none, (n,)."""
        place = torch.full((len(self.classes),), -1)
        place[self.items] = torch.arange(len(self.items))
        return place

    @cached_property
    def answerable(self) -> Tensor:
        """Whether each row is a query that has another item of its class to find, (n,)."""
        found = torch.zeros(len(self.classes), dtype=torch.bool)
        found[self.queries] = (self._sorted[2] - (self._place >= 0).long())[self.queries] > 0
        return found

    @cached_property
    def asked(self) -> Tensor:
        """Rows of the queries that have an answer."""
        return self.queries[self.answerable[self.queries]]

    def alike(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Items of the class of each row, itself left out: places (rows, most) and which of them are such."""
        order, starts, counts = self._sorted
        column = torch.arange(int(counts[rows].max()))
        known = column < counts[rows].unsqueeze(1)
        places = order[(starts[rows].unsqueeze(1) + column).clamp(max=len(order) - 1)]
        return places, known & (places != self._place[rows].unsqueeze(1))

    def blocks(self, embeddings: Tensor, *, distance: Distance, memory: int) -> Iterator[tuple[slice, slice, Block]]:
        """Members, places among `asked` and similarities of one block after the other.

        Args:
            embeddings: Of all rows, (population, n, d).
            distance: By which items are near.
            memory: Bytes that the similarities of a block may take at most, those of one query apart.
        """
        population, items = len(embeddings), len(self.items)
        several = max(1, min(_QUERIES, len(self.asked), memory // (2 * 4 * items)))
        members = max(1, min(population, min(_AT_ONCE, memory // 8) // (several * items)))
        # The same for all members: kept, unless classes are so large that it would take more than the similarities.
        slim = len(self.asked) * int(self._sorted[2].max()) * _PLACE_BYTES <= memory
        parts = list(self._parts(several)) if slim and members < population else None
        for first in range(0, population, members):
            of_members = slice(first, first + members)
            left, right = _sides(embeddings[of_members], distance)
            right = (right if len(self.items) == len(self.classes) else right[:, self.items]).mT
            # One room for all blocks: new memory for each took a fifth of the time.
            room = left.new_empty(len(left), several, items)
            for part in self._parts(several) if parts is None else parts:
                nearness = torch.bmm(left[:, part.rows], right, out=room if len(part.rows) == several else None)
                nearness[:, part.itself[0], part.itself[1]] = -torch.inf
                yield of_members, part.places, Block(nearness, part.alike, part.known)

    def _parts(self, several: int) -> Iterator["_Part"]:
        """All queries that have an answer, so many at a time."""
        for start in range(0, len(self.asked), several):
            rows = self.asked[start : start + several]
            here = self._place[rows]
            found = (here >= 0).nonzero()[:, 0]
            yield _Part(slice(start, start + several), rows, (found, here[found]), *self.alike(rows))


class _Part(NamedTuple):
    """Some queries: where they are among all, their rows, themselves in the gallery, and their class there."""

    places: slice
    rows: Tensor
    itself: tuple[Tensor, Tensor]
    alike: Tensor
    known: Tensor


def gallery_of(classes: Tensor, roles: Tensor | None) -> Gallery:
    """Every row both a query and an item, or as the roles say: 0 an item, 1 a query, 2 both.

    Raises unless some query has another item of its class to find.
    """
    classes = _codes(classes)
    every = torch.arange(len(classes))
    gallery = Gallery(classes, *((every, every) if roles is None else _parted(roles)))
    if not len(gallery.asked):
        raise MetricError(
            f"none of {len(gallery.queries)} queries has an item of its class among the {len(gallery.items)} of the "
            f"gallery; expected classes with two items or more: pass rows of which some belong together"
        )
    return gallery


def scored(
    measure: Measure, embeddings: Tensor, gallery: Gallery, *, distance: Distance = "cosine", memory: int = 2**26
) -> Tensor:
    """A measure's score of each row as a query, NaN of rows that are none, (population, n), float64.

    Example:
        >>> embeddings = torch.tensor([[[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]])
        >>> nearest = lambda block: block.own.amax(2)
        >>> scored(nearest, embeddings, gallery_of(torch.tensor([0, 0, 1]), None)).round(decimals=3).tolist()
        [[0.994, 0.994, nan]]
    """
    found = torch.full(embeddings.shape[:2], torch.nan, dtype=torch.float64)
    for members, places, block in gallery.blocks(embeddings, distance=distance, memory=memory):
        found[members, gallery.asked[places]] = measure(block).double()
    return found


def _parted(roles: Tensor) -> tuple[Tensor, Tensor]:
    if not bool(((roles == 0) | (roles == 1) | (roles == 2)).all()):
        raise MetricError(
            f"groups hold {sorted(set(roles.tolist()))[:5]}; expected the role of each row: 0 an item of the gallery, "
            f"1 a query, 2 both"
        )
    return (roles > 0).nonzero()[:, 0], (roles != 1).nonzero()[:, 0]


def _codes(classes: Tensor) -> Tensor:
    if classes.ndim == 2 and classes.shape[1] == 1:
        classes = classes[:, 0]
    whole = not classes.is_floating_point() or bool((classes == classes.round()).all())
    if classes.ndim != 1 or not whole:
        example = f" such as {float(classes[classes != classes.round()][0]):g}" if not whole else ""
        raise MetricError(
            f"targets {tuple(classes.shape)} hold {classes.dtype} numbers{example}; expected one class code a row, "
            f"(n,): number the classes"
        )
    return classes.long()


def _sides(embeddings: Tensor, distance: Distance) -> tuple[Tensor, Tensor]:
    """Two forms of embeddings (members, n, d) whose products order the second by nearness to the first."""
    embeddings = embeddings if embeddings.dtype == torch.float64 else embeddings.float()
    if distance == "cosine":
        if not bool(embeddings.any(2).all()):
            count = int((~embeddings.any(2)).any(0).sum())
            raise MetricError(
                f"{count} of {embeddings.shape[1]} embeddings are zero, which no cosine is defined for; expected "
                f"others: look at the network's last layer, or use distance='euclidean'"
            )
        unit = functional.normalize(embeddings, dim=2)
        return unit, unit
    # |a - b|² = |a|² + |b|² - 2ab, of which |a|² is the same for all items; about their mean numbers cancel least.
    centred = embeddings - embeddings.mean(1, keepdim=True)
    ones, squares = torch.ones_like(centred[..., :1]), centred.square().sum(2, keepdim=True)
    return torch.cat([2 * centred, ones], 2), torch.cat([centred, -squares], 2)
