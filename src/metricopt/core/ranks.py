"""Spearman's rank correlation, written once."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def rank_correlation(
    predicted: Sequence[float] | Any, true: Sequence[float] | Any, *, least: int = 2, unknown: float = 0.0
) -> float:
    """Spearman's rank correlation of two lists of numbers.

    Pairs in which either is no finite number are left out.

    Args:
        predicted: Numbers, (n,): a list, an array or a tensor.
        true: As many others.
        least: Pairs below which nothing is said.
        unknown: What is given then, or where one side is constant: nothing is ranked.

    Example:
        >>> rank_correlation([1.0, 2.0, 3.0], [0.1, 0.2, 0.9])
        1.0
        >>> rank_correlation([1.0, 1.0], [0.1, 0.2])
        0.0
    """
    one, other = (np.asarray(numbers, dtype=np.float64) for numbers in (predicted, true))
    known = np.isfinite(one) & np.isfinite(other)
    one, other = one[known], other[known]
    # Not by the standard deviation: that of a float32 constant is about 1e-8, because its mean is rounded.
    if len(one) < least or one.min() == one.max() or other.min() == other.max():
        return unknown
    from scipy.stats import spearmanr  # here, since it takes longer to import than all of this package

    correlation, _ = spearmanr(one, other)
    return float(correlation)  # pyright: ignore[reportArgumentType]
