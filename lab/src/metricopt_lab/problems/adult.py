"""Problems on UCI Adult: plain, or with flipped training labels."""

from pathlib import Path

import numpy as np
import torch

from metricopt.adapters import FiLM, OutputAffine
from metricopt.core.seeding import stream
from metricopt.data.sampling import Sampling
from metricopt.metrics import METRICS
from metricopt_lab.data import DATASETS
from metricopt_lab.problems.from_table import Parts, problem_from_table, shuffled_parts
from metricopt_lab.problems.problem import Problem

SIZES = (22_000, 6_000, 6_000, 14_842)
"""Rows of train, search, accept and test: all there are."""


def adult(
    name: str,
    *,
    data: str,
    metric: str,
    sampling: Sampling = "plain",
    flipped: float = 0.0,
    sizes: tuple[int, int, int, int] = SIZES,
    seed: int,
    cache: Path | None = None,
    dim: int = 32,
) -> Problem:
    """A problem on all 48,842 rows of Adult, split at random: train 22,000, search 6,000, accept 6,000, test 14,842.

    Args:
        name: Name of the problem.
        data: "adult_a9a" or "adult_raw".
        metric: Registered name of the metric.
        sampling: How mini-batches are drawn.
        flipped: Part of the positive training labels that is turned negative.
        sizes: Rows of train, search, accept and test.
        seed: Of split, flips, training and adapter.
        cache: Folder of weights trained before.
        dim: Size of FiLM's part of phi.

    Example:
        >>> problem = adult("small", data="adult_a9a", metric="f1", sizes=(1000, 200, 200, 200), seed=0, dim=8)
        >>> len(problem.test), problem.task().dim
        (200, 10)
    """
    table = DATASETS[data]()
    parts = Parts(*shuffled_parts(np.arange(len(table)), sizes, seed=seed))
    targets = _flipped(table.target[parts.train], flipped, seed)
    notes = f"; {flipped:.0%} of the positive training labels turned negative" if flipped else ""
    return problem_from_table(
        table,
        parts,
        name=name,
        metric=METRICS[metric](),
        adapter=FiLM(dim=dim) + OutputAffine(),
        sampling=sampling,
        seed=seed,
        split_note=f"Split at random{notes}",
        train_targets=targets,
        cache=cache,
    )


def _flipped(targets: np.ndarray, part: float, seed: int) -> np.ndarray:
    hit = torch.rand(len(targets), generator=stream(seed, "flips")).numpy() < part
    return np.where(hit & (targets == 1), 0, targets)
