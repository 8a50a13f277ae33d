"""Problems on UCI CoverType: plain, with noisy training labels, deployed elsewhere, or judged by area."""

from pathlib import Path

import numpy as np
import torch

from metricopt.adapters import FiLM, OutputAffine
from metricopt.data import DATASETS, Table
from metricopt.examples import Sampling
from metricopt.metrics import METRICS
from metricopt.seeding import stream
from metricopt.tasks.from_table import Parts, problem_from_table, shuffled_parts
from metricopt.tasks.problem import Problem

SIZES = (60_000, 10_000, 10_000, 100_000)
"""Rows of train, search, accept and test."""


def covtype(
    name: str,
    *,
    metric: str,
    sampling: Sampling = "plain",
    noisy: float = 0.0,
    by_area: bool = False,
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
        noisy: Part of the training labels that is replaced by one of the seven classes at random.
        by_area: Whether the metric looks at groups, the four wilderness areas.
        areas: The wilderness area of the training rows and those of all others, if not all areas are mixed. Area 0
            (Rawah) lacks classes 2, 3 and 5, area 2 (Comanche Peak) lacks class 3.
        sizes: Rows of train, search, accept and test.
        seed: Of split, noise, training and adapter.
        cache: Folder of weights trained before.
        dim: Size of FiLM's part of phi.

    Example:
        >>> covtype("noisy", metric="no such", seed=0)
        Traceback (most recent call last):
        metricopt.errors.UnknownNameError: there is no metric named 'no such'; ...
    """
    measured = METRICS[metric]()
    table = DATASETS["covtype7"]()
    parts = _mixed_parts(table, sizes, seed) if areas is None else _parts_of(areas, table, sizes, seed)
    targets = _noisy(table.target[parts.train], table.classes, noisy, seed)
    notes = f"; {noisy:.0%} of the training labels replaced at random" if noisy else ""
    shift = "" if areas is None else f"; training rows from area {areas[0]}, all others from {areas[1]}"
    return problem_from_table(
        table,
        parts,
        name=name,
        metric=measured,
        adapter=FiLM(dim=dim) + OutputAffine(),
        sampling=sampling,
        seed=seed,
        split_note=f"Split at random{notes}{shift}{'; groups: wilderness areas' if by_area else ''}",
        train_targets=targets,
        groups=table.groups["wilderness"] if by_area else None,
        cache=cache,
    )


def _mixed_parts(table: Table, sizes: tuple[int, ...], seed: int) -> Parts:
    return Parts(*shuffled_parts(np.arange(len(table)), sizes, seed=seed))


def _parts_of(areas: tuple[int, tuple[int, ...]], table: Table, sizes: tuple[int, ...], seed: int) -> Parts:
    here, there = (np.flatnonzero(np.isin(table.groups["wilderness"], area)) for area in areas)
    train, *others = sizes
    return Parts(
        *shuffled_parts(here, (train,), seed=seed),
        *shuffled_parts(there, others, seed=seed),
    )


def _noisy(targets: np.ndarray, classes: int, part: float, seed: int) -> np.ndarray:
    generator = stream(seed, "label noise")
    hit = torch.rand(len(targets), generator=generator).numpy() < part
    return np.where(hit, torch.randint(classes, (len(targets),), generator=generator).numpy(), targets)
