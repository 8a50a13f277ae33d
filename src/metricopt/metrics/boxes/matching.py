"""Which detections hit a true box, image by image and class by class: once, whatever is asked of it afterwards.

Written here and not taken from faster-coco-eval because a bootstrap asks for hundreds of resamples: what is matched
once an image serves them all. All images and classes are matched at the same time, the best detection of each first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from metricopt.metrics.boxes.given import Boxes

Rule = Literal["coco", "voc07", "area"]
"""How precision is averaged over recall: at COCO's 101 points, at VOC 2007's 11, or as the area under its curve."""

_MOST = 100  # detections of a class an image that COCO counts
_AT_ONCE = 2**21  # pairs of boxes compared at the same time


@dataclass(frozen=True)
class Matches:
    """Detections of the classes that are there, by class and falling score, each a hit or not.

    Attributes:
        classes: The classes that true boxes have, (classes,).
        label: Which of them each detection is of, as its place there, (detections,).
        image: Its image, (detections,).
        hit: Whether it found a true box of its own at each overlap, (overlaps, detections).
        counts: Whether it is counted at all, (overlaps, detections).
        positives: True boxes to be found, (images, classes).
    """

    classes: np.ndarray
    label: np.ndarray
    image: np.ndarray
    hit: np.ndarray
    counts: np.ndarray
    positives: np.ndarray


def matched(true: Boxes, found: Boxes, *, overlaps: Sequence[float], rule: Rule) -> Matches:
    """Matches of detections with true boxes.

    By COCO's rule the best detection takes the free box that it overlaps most; a crowd may be taken by many, and what
    takes one is not counted; `difficult` is unknown to it. By VOC's, a detection goes to the box that it overlaps most,
    free or not, so that the second on a box is wrong; difficult boxes, and crowds, are not counted.

    Example:
        >>> from metricopt.metrics.boxes.given import detections, truths
        >>> box, one = [[0.0, 0.0, 2.0, 2.0]], [1]
        >>> twice = {"boxes": box * 2, "labels": one * 2, "scores": [0.9, 0.8]}
        >>> matched(truths([{"boxes": box, "labels": one}]), detections([twice]), overlaps=[0.5], rule="coco").hit
        array([[ True, False]])
    """
    ignored = true.crowd if rule == "coco" else true.crowd | true.difficult
    classes = np.unique(true.label)
    found = found.at(np.flatnonzero(np.isin(found.label, classes)))
    width = max(1, len(classes))
    true_group = true.image * width + np.searchsorted(classes, true.label)
    group = found.image * width + np.searchsorted(classes, found.label)
    order = np.lexsort((-found.score, group))  # the best first, equal ones as they come
    if rule == "coco":
        order = order[_place(group[order]) < _MOST]
    found, group = found.at(order), group[order]
    hit, counts = _matched(true, true_group, ignored, found, group, overlaps, rule)
    order = np.lexsort((-found.score, group % width))
    positives = np.zeros((true.images, len(classes)), dtype=np.int64)
    np.add.at(positives.reshape(-1), true_group[~ignored], 1)
    return Matches(classes, group[order] % width, found.image[order], hit[:, order], counts[:, order], positives)


def _place(group: np.ndarray) -> np.ndarray:
    """Place of each item among those of its group, which stand together."""
    starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]]) if len(group) else np.zeros(0, dtype=int)
    return np.arange(len(group)) - np.repeat(starts, np.diff(np.r_[starts, len(group)]))


def _matched(
    true: Boxes,
    true_group: np.ndarray,
    ignored: np.ndarray,
    found: Boxes,
    group: np.ndarray,
    overlaps: Sequence[float],
    rule: Rule,
) -> tuple[np.ndarray, np.ndarray]:
    """Hits and counted detections, (overlaps, detections); those of one group stand together, the best first."""
    hit = np.zeros((len(overlaps), len(group)), dtype=bool)
    counts = np.ones_like(hit)
    order = np.lexsort((ignored, true_group))  # boxes to be found before those that are not counted
    true, true_group, ignored = true.at(order), true_group[order], ignored[order]
    wide = _greatest(true_group)
    places = _place(group)
    for some in _blocks(group, wide):
        if not len(some):
            continue
        names, row = np.unique(group[some], return_inverse=True)
        mine = np.flatnonzero(np.isin(true_group, names))
        if not len(mine):
            continue
        where = np.searchsorted(names, true_group[mine]), _place(true_group[mine])
        corners = np.zeros((len(names), where[1].max() + 1, 4))
        flags = np.zeros((3, *corners.shape[:2]), dtype=bool)  # there, not counted, a crowd
        corners[where] = true.corners[mine]
        flags[0][where], flags[1][where], flags[2][where] = True, ignored[mine], true.crowd[mine] & (rule == "coco")
        greedy = _Greedy(flags, overlaps, rule)
        for place in range(places[some].max() + 1):
            now = places[some] == place
            index, rows = some[now], row[now]
            overlap = _overlap(found.corners[index][:, None], corners[rows], flags[2][rows])
            hit[:, index], counts[:, index] = greedy.taken(rows, np.where(flags[0][rows], overlap, -1.0))
    return hit, counts


def _greatest(group: np.ndarray) -> int:
    return int(np.unique(group, return_counts=True)[1].max()) if len(group) else 1


def _blocks(group: np.ndarray, wide: int) -> list[np.ndarray]:
    """Numbers of detections, those of a group in one block, so that no block compares too many boxes."""
    numbers = np.unique(group, return_inverse=True)[1] if len(group) else np.zeros(0, dtype=int)
    each = max(1, _AT_ONCE // max(1, wide))
    cuts = np.flatnonzero(np.diff(numbers // each)) + 1
    return np.split(np.arange(len(group)), cuts)


def _overlap(one: np.ndarray, other: np.ndarray, crowd: np.ndarray) -> np.ndarray:
    """Shared area over the area of both, or over that of the first where the other is a crowd; (..., boxes)."""
    low, high = np.maximum(one[..., :2], other[..., :2]), np.minimum(one[..., 2:], other[..., 2:])
    shared = np.maximum(high - low, 0.0).prod(-1)
    areas = [(box[..., 2] - box[..., 0]) * (box[..., 3] - box[..., 1]) for box in (one, other)]
    union = np.where(crowd, areas[0], areas[0] + areas[1] - shared)
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


class _Greedy:
    """True boxes of many groups, taken one after the other by the best detection left of each group."""

    def __init__(self, flags: np.ndarray, overlaps: Sequence[float], rule: Rule) -> None:
        self._ignored, self._crowd, self._rule = flags[1], flags[2], rule
        self._least = np.minimum(np.asarray(overlaps, dtype=np.float64), 1 - 1e-10)[:, None]
        self._free = np.repeat(flags[:1], len(overlaps), 0)  # (overlaps, groups, boxes)

    def taken(self, rows: np.ndarray, overlap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Whether one detection in each of some groups is a hit, and whether it counts, (overlaps, rows)."""
        choose = self._coco if self._rule == "coco" else self._voc
        reached, best, free = choose(rows, overlap)
        ignored = np.take_along_axis(np.broadcast_to(self._ignored[rows], (len(best), *overlap.shape)), best, 2)[..., 0]
        hit = reached & free & ~ignored
        level, row = np.nonzero(reached & free)
        self._free[level, rows[row], best[level, row, 0]] = self._crowd[rows[row], best[level, row, 0]]
        return hit, ~(reached & ignored)

    def _coco(self, rows: np.ndarray, overlap: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The free box that is overlapped most, one to be found if there is any; the last of equals."""
        enough = (overlap >= self._least[..., None]) & self._free[:, rows]
        # Overlaps are at most 1: boxes that are to be found come before all others.
        worth = np.where(enough, overlap + 2.0 * ~self._ignored[rows], -1.0)
        best = np.asarray(worth.shape[2] - 1 - worth[..., ::-1].argmax(2)[..., None])
        return np.asarray(enough.any(2)), best, np.ones(enough.shape[:2], dtype=bool)

    def _voc(self, rows: np.ndarray, overlap: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The box that is overlapped most, taken or not; the first of equals."""
        best = np.repeat(overlap.argmax(1)[None, :, None], len(self._least), 0)
        reached = overlap.max(1)[None] >= self._least
        return reached, best, np.take_along_axis(self._free[:, rows], best, 2)[..., 0]
