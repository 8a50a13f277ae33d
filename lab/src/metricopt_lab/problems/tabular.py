"""The paper's protocol for A9A and CoverType: 70/10/20 split, MLP 100-30-10-1, cross-entropy, d = 16 dynamic biases."""

from pathlib import Path

import numpy as np

from metricopt.adapters import Adapter, DynamicBias, OutputAffine
from metricopt.core.errors import DataError
from metricopt.data.sampling import Sampling
from metricopt.metrics import Metric
from metricopt_lab.data import DATASETS, split
from metricopt_lab.problems.from_table import Parts, problem_from_table
from metricopt_lab.problems.problem import Problem


def tabular(
    data: str,
    metric: Metric,
    *,
    seed: int,
    sampling: Sampling = "balanced",
    adapter: Adapter | None = None,
    accept_fraction: float = 0.5,
    train_rows: int | None = None,
    search_rows: int | None = None,
    accept_rows: int | None = None,
    test_rows: int | None = None,
    cache: Path | None = None,
) -> Problem:
    """The paper's problem on a registered data set.

    Args:
        data: Name of a data set: "adult_a9a", "adult_raw", "covtype2" or "covtype7".
        metric: What to improve.
        seed: Of split, training and adapter.
        sampling: "balanced" as in the paper, or "plain".
        adapter: By default 16 dynamic biases as in the paper and an output affine, so that the search contains what
            post-hoc tuning can do; `DynamicBias(16)` alone is the paper's own.
        accept_fraction: Part of the 10% validation rows that is never queried and decides whether a result is kept.
        train_rows: At most so many training rows, and likewise for the other parts; all of them if None.
        search_rows: At most so many rows to query the metric on.
        accept_rows: At most so many rows to decide on.
        test_rows: At most so many test rows.
        cache: Folder of weights trained before.

    Example:
        >>> from metricopt.metrics import f_beta
        >>> problem = tabular("adult_a9a", f_beta(), seed=0, train_rows=2000, search_rows=500)
        >>> len(problem.train), len(problem.search), len(problem.accept), len(problem.test)
        (2000, 500, 2443, 9768)
        >>> problem.task().dim
        18
    """
    if not 0 < accept_fraction < 1:
        raise DataError(f"accept_fraction is {accept_fraction}; expected a part of the validation rows, as in 0.5")
    table = DATASETS[data]()
    train, validation, test = split(len(table), seed=seed)
    cut = round(len(validation) * (1 - accept_fraction))
    limits = (train_rows, search_rows, accept_rows, test_rows)
    rows: list[np.ndarray] = [train, validation[:cut], validation[cut:], test]
    parts = Parts(*(part[:limit] for part, limit in zip(rows, limits, strict=True)))
    return problem_from_table(
        table,
        parts,
        name=f"{data}_{sampling}_{metric.name}",
        metric=metric,
        adapter=DynamicBias(dim=16) + OutputAffine() if adapter is None else adapter,
        sampling=sampling,
        seed=seed,
        split_note=f"70/10/20 at random, {accept_fraction:.0%} of the validation rows kept for acceptance",
        cache=cache,
    )
