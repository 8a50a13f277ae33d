"""Blind trial."""

import torch

from metricopt.baselines.incumbent import Incumbent
from metricopt.baselines.named import baseline
from metricopt.records import Outcome
from metricopt.seeding import stream
from metricopt.task import Task

SCALES = (0.03, 0.1, 0.3, 1.0)


@baseline("random_search")
def random_search(task: Task, *, queries: int, seed: int) -> Outcome:
    """Gaussian vectors around 0 in a cycle of scales, the best kept.

    Example:
        >>> from metricopt.tasks import QuadraticTask
        >>> task = QuadraticTask(dim=2)
        >>> bool(task.costs(random_search(task, queries=40, seed=0).phi[None]) < 0.2)
        True
    """
    best = Incumbent(task, queries=queries)
    scale = torch.tensor(SCALES).repeat(best.left // len(SCALES) + 1)[: best.left]
    best.observe(scale[:, None] * torch.randn(best.left, task.dim, generator=stream(seed, "baseline", "random")))
    return best.outcome()
