"""By which version of a method a record was made: a number bumped by hand, where a method's results change."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from metricopt.search import RECIPE_VERSION
from metricopt_lab.rivals import BASELINES
from metricopt_lab.rivals.published import PUBLISHED, rival_of


def version_of(method: str) -> int:
    """The present version of a rival by its name, and of the library's search and stages by any other.

    Example:
        >>> version_of("metricopt") == version_of("metricopt@variant") == RECIPE_VERSION
        True
        >>> version_of("cma_es") == BASELINES["cma_es"].version
        True
        >>> version_of("moew_weights") == PUBLISHED["moew"].version
        True
    """
    published = rival_of(method)
    if published in PUBLISHED:
        return PUBLISHED[published].version
    return BASELINES[method].version if method in BASELINES else RECIPE_VERSION


Present = Callable[[dict[str, Any]], int]
"""From a record to the version by which it would be made now."""


def stale(records: Sequence[dict[str, Any]], present: Present) -> Counter[tuple[str, int, int]]:
    """How many records of each method are not of the present version: keys (method, its version, the present one).

    Example:
        >>> stale([{"method": "cma_es", "version": 0}, {"method": "snes", "version": 1}], lambda record: 1)
        Counter({('cma_es', 0, 1): 1})
    """
    return Counter((r["method"], r["version"], present(r)) for r in records if r["version"] != present(r))


def origin(records: Sequence[dict[str, Any]], present: Present) -> str:
    """A sentence: how many records, of which versions and days, and which of them are stale.

    Example:
        >>> record = {"method": "metricopt", "version": 1, "versions": {"finished": "2026-11-16T08:00"}}
        >>> origin([record], lambda record: 1)
        'Made from 1 record of 2026-11-16: 1 of version 1, each the present version of its method.'
        >>> origin([record], lambda record: 2)
        'Made from 1 record of 2026-11-16: 1 of version 1; 1 is stale: 1 of metricopt by version 1, now 2.'
    """
    days = sorted({record["versions"]["finished"][:10] for record in records})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    counts = sorted(Counter(record["version"] for record in records).items())
    found = " and ".join(f"{count:,} of version {version}" for version, count in counts)
    start = f"Made from {len(records):,} record{'s' if len(records) > 1 else ''} of {when}: {found}"
    old = stale(records, present)
    if not old:
        return f"{start}, each the present version of its method."
    many = f"{old.total()} {'are' if old.total() > 1 else 'is'} stale"
    parts = [f"{count} of {name} by version {version}, now {now}" for (name, version, now), count in old.items()]
    return f"{start}; {many}: {'; '.join(parts)}."
