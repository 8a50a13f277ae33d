"""How much better than it is the best of many answers looks on the very rows that it was chosen on."""

import math

_SLOWNESS = 500.0
"""Queries after which a search has made half of the luck its directions allow (docs/recipe.md)."""


def luck(freedom: int, queries: int) -> float:
    """Standard errors of the gain by which a point found with so many queries along so many directions looks better.

    To choose along d directions by the answers on some rows fits what is particular to these rows by sqrt(d) standard
    errors in the end; after n queries a search has come part of the way.

    Args:
        freedom: Directions the search was free to choose.
        queries: Answers it has seen.

    Example:
        >>> round(luck(46, 500), 2), round(luck(46, 50), 2), round(luck(1, 50), 2)
        (4.8, 2.04, 0.3)
    """
    return math.sqrt(freedom * queries / (queries + _SLOWNESS))
