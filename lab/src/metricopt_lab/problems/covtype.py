"""Problems on UCI CoverType: plain, or deployed elsewhere."""

from pathlib import Path

import numpy as np

from metricopt.adapters import FiLM, OutputAffine
from metricopt.data.sampling import Sampling
from metricopt.metrics import METRICS
from metricopt_lab.data import DATASETS, Table
from metricopt_lab.problems.from_table import Parts, problem_from_table, shuffled_parts
from metricopt_lab.problems.problem import Problem

SIZES = (60_000, 10_000, 10_000, 100_000)
"""Rows of train, search, accept and test."""


def covtype(
    name: str,
    *,
    metric: str,
    sampling: Sampling = "plain",
    areas: tuple[int, tuple[int, ...]] | None = None,
    sizes: tuple[int, int, int, int] = SIZES,
    seed: int,
    cache: Path | None = None,
    dim: int = 32,
) -> Problem:
    """A problem on CoverType's seven classes: train 60,000 rows, search 10,000, accept 10,000, test 100,000.

    Args:
        name: Name of the problem.
        metric: Registered name of the metric.
        sampling: How mini-batches are drawn.
        areas: The wilderness area of the training rows and those of all others, if not all areas are mixed. Area 0
            (Rawah) lacks classes 2, 3 and 5, area 2 (Comanche Peak) lacks class 3.
        sizes: Rows of train, search, accept and test.
        seed: Of split, training and adapter.
        cache: Folder of weights trained before.
        dim: Size of FiLM's part of phi.

    Example:
        >>> covtype("plain", metric="no such", seed=0)
        Traceback (most recent call last):
        metricopt.core.errors.UnknownNameError: there is no metric named 'no such'; ...
    """
    measured = METRICS[metric]()
    table = DATASETS["covtype7"]()
    parts = _parts(table, sizes, areas=areas, seed=seed)
    shift = "" if areas is None else f"; training rows from area {areas[0]}, all others from {areas[1]}"
    return problem_from_table(
        table,
        parts,
        name=name,
        metric=measured,
        adapter=FiLM(dim=dim) + OutputAffine(),
        sampling=sampling,
        seed=seed,
        split_note=f"Split at random{shift}",
        cache=cache,
    )


def _parts(table: Table, sizes: tuple[int, ...], *, areas: tuple[int, tuple[int, ...]] | None, seed: int) -> Parts:
    """Rows of train, search, accept and test, from all areas or from those given."""
    everything, area_of = np.arange(len(table)), table.groups["wilderness"]
    if areas is None:
        return Parts(*shuffled_parts(everything, sizes, seed=seed))
    train = shuffled_parts(everything[area_of == areas[0]], sizes[:1], seed=seed)[0]
    return Parts(train, *shuffled_parts(everything[np.isin(area_of, areas[1])], sizes[1:], seed=seed))
