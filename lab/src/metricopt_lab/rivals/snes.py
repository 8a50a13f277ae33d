"""Separable natural evolution strategies (Schaul, Glasmachers and Schmidhuber 2011; Wierstra et al. 2014).

Its first step size was chosen among .1, .3, .6, 1 and 2 by the error on accept rows never queried (means of seeds 100
and 101, after 150 / 500 queries).
covtype_shift_mcr (start .401): .381 / .373, .378 / .355, .374 / .347, .372 / .350 and
.370 / .352. a9a_plain_f1 (start .334): .309 / .309, .307 / .303, .298 / .303, .297 / .296 and .304 / .298.
"""

import math

import torch

from metricopt.core.records import Outcome
from metricopt.core.seeding import stream
from metricopt.search.evolution_arm import utilities
from metricopt.task.oracle import Oracle
from metricopt_lab.rivals.incumbent import Incumbent
from metricopt_lab.rivals.named import baseline

SIGMA = 0.6


@baseline("snes")
def snes(oracle: Oracle, *, queries: int, seed: int) -> Outcome:
    """Separable natural evolution strategies from phi = 0 with the standard rates, the best vector queried.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task = QuadraticTask(dim=4)
        >>> bool(task.costs(snes(Oracle(task), queries=150, seed=0).phi[None]) < 0.05)
        True
    """
    best = Incumbent(oracle, queries=queries)
    generator = stream(seed, "baseline", "snes")
    dim, population = oracle.dim, 4 + math.floor(3 * math.log(oracle.dim))
    mean, sigma = best.phi.clone(), torch.full((dim,), SIGMA)
    rate, weights = (3 + math.log(dim)) / (5 * math.sqrt(dim)), utilities(population)
    while best.left > 0:
        noise = torch.randn(population, dim, generator=generator)  # s in the paper
        costs = best.observe(mean + sigma * noise)
        if len(costs) == population:
            ranked = noise[costs.argsort(stable=True)]  # best first
            mean = mean + sigma * (weights @ ranked)  # rate of the mean: 1
            sigma = sigma * (rate / 2 * (weights @ (ranked.square() - 1))).exp()
    return best.outcome()
