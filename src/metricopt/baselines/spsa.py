"""Simultaneous perturbation (Spall 1992) as in MeZO (Malladi et al. 2023): a gradient from antithetic pairs."""

import torch

from metricopt.baselines.incumbent import Incumbent
from metricopt.baselines.named import baseline
from metricopt.records import Outcome
from metricopt.seeding import stream
from metricopt.task import Task

PAIRS, RADIUS, STEP = 4, 0.1, 0.3


@baseline("spsa")
def spsa(task: Task, *, queries: int, seed: int) -> Outcome:
    """Descent along two-point estimates of the metric's gradient with a rate falling to zero, best vector queried.

    Example:
        >>> from metricopt.tasks import QuadraticTask
        >>> task = QuadraticTask(dim=4)
        >>> bool(task.costs(spsa(task, queries=150, seed=0).phi[None]) < 0.1)
        True
    """
    best = Incumbent(task, queries=queries)
    generator = stream(seed, "baseline", "spsa")
    phi, total = best.phi.clone(), max(best.left, 1)
    while best.left > 0:
        rate = STEP * best.left / total
        noise = torch.randn(PAIRS, task.dim, generator=generator)
        # The iterate itself is queried with the next pairs: it, not its perturbed copies, is what is to be returned.
        costs = best.observe(torch.cat([phi[None], phi + RADIUS * noise, phi - RADIUS * noise]))
        if len(costs) == 2 * PAIRS + 1:
            slope = (costs[1 : PAIRS + 1] - costs[PAIRS + 1 :]).float() / (2 * RADIUS)  # (pairs,)
            gradient = slope @ noise / PAIRS
            phi = phi - rate * gradient
    return best.outcome()
