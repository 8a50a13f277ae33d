"""Simultaneous perturbation (Spall 1992) as in MeZO (Malladi et al. 2023): a gradient from antithetic pairs.

Pairs, radius and step were chosen, before steps were limited to the radius, by the error on accept rows never queried
(means of seeds 100 and 101, after 150 / 500 queries). covtype_shift_mcr (start .401): of eleven settings the one taken
was best at 500 (.380 / .372; limited .379 / .373); four pairs had .379 / .378 at its radius and step, .379 / .374 at
step 10, .385 / .373 at radius 1. a9a_plain_f1 (start .334): .302 / .301 (limited .304 / .302), the others .298 - .326.
Every third query is of the iterate itself, which the method as published does without.
"""

import torch

from metricopt.core.records import Outcome
from metricopt.core.seeding import stream
from metricopt.task.oracle import Oracle
from metricopt_lab.rivals.incumbent import Incumbent
from metricopt_lab.rivals.named import baseline

PAIRS, RADIUS, STEP = 1, 0.3, 3.0


@baseline("spsa")
def spsa(oracle: Oracle, *, queries: int, seed: int) -> Outcome:
    """Descent along two-point estimates of the metric's gradient with a rate falling to zero, best vector queried.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task = QuadraticTask(dim=4)
        >>> bool(task.costs(spsa(Oracle(task), queries=150, seed=0).phi[None]) < 0.1)
        True
    """
    best = Incumbent(oracle, queries=queries)
    generator = stream(seed, "baseline", "spsa")
    phi, total = best.phi.clone(), max(best.left, 1)
    while best.left > 0:
        rate = STEP * best.left / total
        noise = torch.randn(PAIRS, oracle.dim, generator=generator)
        # The iterate itself is queried with the next pairs: it, not its perturbed copies, is what is to be returned.
        costs = best.observe(torch.cat([phi[None], phi + RADIUS * noise, phi - RADIUS * noise]))
        if len(costs) == 2 * PAIRS + 1:
            slope = (costs[1 : PAIRS + 1] - costs[PAIRS + 1 :]).float() / (2 * RADIUS)  # (pairs,)
            # A step beyond the points that were asked about would rest on nothing; steep metrics would diverge.
            phi = phi - (rate * slope).clamp(-RADIUS, RADIUS) @ noise / PAIRS
    return best.outcome()
