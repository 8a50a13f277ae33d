"""Blind trial."""

import torch

from metricopt.core.records import Outcome
from metricopt.core.seeding import stream
from metricopt.task.oracle import Oracle
from metricopt_lab.rivals.incumbent import Incumbent
from metricopt_lab.rivals.named import baseline

SCALES = (0.03, 0.1, 0.3, 1.0)


@baseline("random_search")
def random_search(oracle: Oracle, *, queries: int, seed: int) -> Outcome:
    """Gaussian vectors around 0 in a cycle of scales, the best kept.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task = QuadraticTask(dim=2)
        >>> bool(task.costs(random_search(Oracle(task), queries=40, seed=0).phi[None]) < 0.2)
        True
    """
    best = Incumbent(oracle, queries=queries)
    scale = torch.tensor(SCALES).repeat(best.left // len(SCALES) + 1)[: best.left]
    best.observe(scale[:, None] * torch.randn(best.left, oracle.dim, generator=stream(seed, "baseline", "random")))
    return best.outcome()
