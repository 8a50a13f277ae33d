"""CMA-ES with learning-rate adaptation for noisy functions (Nomura, Akimoto and Ono 2023), by the package `cmaes`."""

import numpy as np
import torch

from metricopt.core.records import Outcome
from metricopt.task.oracle import Oracle
from metricopt_lab.rivals.cma_es import SIGMA
from metricopt_lab.rivals.incumbent import Incumbent
from metricopt_lab.rivals.libraries.guest import guest, own_randomness
from metricopt_lab.rivals.named import baseline


@baseline("cma_es_lr_adapt")
def cma_es_lr_adapt(oracle: Oracle, *, queries: int, seed: int) -> Outcome:
    """CMA-ES whose learning rates follow the signal-to-noise ratio of its steps.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task = QuadraticTask(dim=4)
        >>> bool(task.costs(cma_es_lr_adapt(Oracle(task), queries=150, seed=0).phi[None]) < 0.1)
        True
    """
    best = Incumbent(oracle, queries=queries)
    with own_randomness(seed, "cma lr") as number:
        strategy = guest("cmaes").CMA(mean=np.zeros(oracle.dim), sigma=SIGMA, seed=number, lr_adapt=True)
        while best.left > 0:
            asked = [strategy.ask() for _ in range(strategy.population_size)]
            costs = best.observe(torch.from_numpy(np.stack(asked)))
            if len(costs) == len(asked):
                strategy.tell(list(zip(asked, costs.tolist(), strict=True)))
    return best.outcome()
