"""Problems on UCI CoverType: plain, with noisy training labels, deployed elsewhere, or judged by area."""

from pathlib import Path

import numpy as np
import torch

from metricopt.adapters import FiLM, OutputAffine
from metricopt.core.seeding import stream
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
        by_area: Whether the metric looks at groups, the wilderness areas: all parts but the training rows then have
            as many rows of each, since the smallest, a twentieth of all rows, would be mostly noise otherwise.
        areas: The wilderness area of the training rows and those of all others, if not all areas are mixed. Area 0
            (Rawah) lacks classes 2, 3 and 5, area 2 (Comanche Peak) lacks class 3.
        sizes: Rows of train, search, accept and test; by area, the last three are rounded down to equal shares.
        seed: Of split, noise, training and adapter.
        cache: Folder of weights trained before.
        dim: Size of FiLM's part of phi.

    Example:
        >>> covtype("noisy", metric="no such", seed=0)
        Traceback (most recent call last):
        metricopt.core.errors.UnknownNameError: there is no metric named 'no such'; ...
    """
    measured = METRICS[metric]()
    table = DATASETS["covtype7"]()
    parts = _parts(table, sizes, areas=areas, evenly=by_area, seed=seed)
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
        split_note=f"Split at random{notes}{shift}{'; groups: wilderness areas, equally many rows' if by_area else ''}",
        train_targets=targets,
        groups=table.groups["wilderness"] if by_area else None,
        cache=cache,
    )


def _parts(
    table: Table, sizes: tuple[int, ...], *, areas: tuple[int, tuple[int, ...]] | None, evenly: bool, seed: int
) -> Parts:
    """Rows of train, search, accept and test, from all areas or from those given."""
    everything, area_of, (trained, *others) = np.arange(len(table)), table.groups["wilderness"], sizes
    if areas is None and not evenly:
        return Parts(*shuffled_parts(everything, sizes, seed=seed))
    here = everything if areas is None else everything[area_of == areas[0]]
    train = shuffled_parts(here, (trained,), seed=seed)[0]
    left = np.setdiff1d(everything, train) if areas is None else everything[np.isin(area_of, areas[1])]
    if not evenly:
        return Parts(train, *shuffled_parts(left, others, seed=seed))
    used = np.unique(area_of[left])
    shares = [size // len(used) for size in others]
    by_area = [shuffled_parts(left[area_of[left] == area], shares, seed=seed) for area in used]
    return Parts(train, *(np.concatenate(part) for part in zip(*by_area, strict=True)))


def _noisy(targets: np.ndarray, classes: int, part: float, seed: int) -> np.ndarray:
    generator = stream(seed, "label noise")
    hit = torch.rand(len(targets), generator=generator).numpy() < part
    return np.where(hit, torch.randint(classes, (len(targets),), generator=generator).numpy(), targets)
