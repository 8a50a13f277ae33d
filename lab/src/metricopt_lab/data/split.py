"""Shuffled, disjoint index sets, and a check that they are."""

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import torch

from metricopt.core.errors import DataError
from metricopt.core.seeding import stream


def split(
    count: int,
    *,
    seed: int,
    fractions: tuple[float, ...] = (0.7, 0.1, 0.2),
    stratify: np.ndarray | None = None,
) -> tuple[np.ndarray, ...]:
    """Row positions 0 .. count - 1, shuffled and cut into disjoint parts that together cover all.

    Args:
        count: Number of rows.
        seed: The same seed, count, fractions and labels give the same parts on any machine.
        fractions: Size of each part; they sum to 1.
        stratify: Labels, (count,); each part then holds each label's share to within one row.

    Example:
        >>> train, val, test = split(100, seed=0)
        >>> len(train), len(val), len(test)
        (70, 10, 20)
        >>> labels = np.repeat([0, 1], [90, 10])
        >>> [int(labels[part].sum()) for part in split(100, seed=0, stratify=labels)]
        [7, 1, 2]
    """
    _check_fractions(fractions)
    labels = np.zeros(count, np.int64) if stratify is None else np.asarray(stratify)
    if labels.shape != (count,):
        raise DataError(f"stratify has shape {labels.shape}; expected ({count},), one label a row")
    order = torch.randperm(count, generator=stream(seed, "split")).numpy()
    part_of = np.empty(count, np.int64)
    for label in np.unique(labels):
        members = order[labels[order] == label]
        bounds = np.round(np.cumsum(fractions[:-1]) * len(members))
        part_of[members] = np.searchsorted(bounds, np.arange(len(members)), side="right")
    parts = tuple(order[part_of[order] == part] for part in range(len(fractions)))
    if not all(len(part) for part in parts):
        raise DataError(
            f"{count} rows cut by {fractions} leave an empty part (sizes {[len(part) for part in parts]}); "
            f"expected at least one row in each: give more rows or larger fractions"
        )
    return parts


def _check_fractions(fractions: tuple[float, ...]) -> None:
    if not fractions or min(fractions) <= 0 or abs(sum(fractions) - 1) > 1e-6:
        raise DataError(f"fractions are {fractions}; expected positive numbers that sum to 1, as in (0.7, 0.1, 0.2)")


def check_disjoint(parts: Mapping[str, np.ndarray]) -> None:
    """Raises DataError if two sets of row positions have one in common.

    Example:
        >>> check_disjoint({"train": np.array([0, 1]), "val": np.array([2])})
        >>> check_disjoint({"train": np.array([0, 1]), "val": np.array([1])})
        Traceback (most recent call last):
        metricopt.core.errors.DataError: 1 of 1 row positions of 'val' are also in 'train' ...
    """
    for (first, a), (second, b) in combinations(parts.items(), 2):
        common = np.intersect1d(a, b)
        if len(common):
            raise DataError(
                f"{len(common)} of {len(np.unique(b))} row positions of {second!r} are also in {first!r} "
                f"(the first is {common[0]}); expected none: metricopt_lab.data.split gives disjoint sets"
            )
