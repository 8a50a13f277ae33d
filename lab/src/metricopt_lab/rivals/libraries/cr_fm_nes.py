"""CR-FM-NES (Nomura and Ono 2022), a natural evolution strategy of linear cost, by its authors' package."""

import math

import numpy as np
import torch

from metricopt.core.errors import DataError
from metricopt.core.records import Outcome
from metricopt.task.oracle import Oracle
from metricopt_lab.rivals.incumbent import WORST, Incumbent
from metricopt_lab.rivals.libraries.guest import guest, own_randomness
from metricopt_lab.rivals.named import baseline
from metricopt_lab.rivals.snes import SIGMA

_LEAST = 6  # below it the published learning rate of the covariance is not positive


@baseline("cr_fm_nes")
def cr_fm_nes(oracle: Oracle, *, queries: int, seed: int) -> Outcome:
    """CR-FM-NES from phi = 0 with its authors' settings.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task = QuadraticTask(dim=6)
        >>> bool(task.costs(cr_fm_nes(Oracle(task), queries=150, seed=0).phi[None]) < 0.1)
        True
    """
    if oracle.dim < _LEAST:
        raise DataError(f"CR-FM-NES was given a phi of dim {oracle.dim}; expected {_LEAST} or more: use another rival")
    best = Incumbent(oracle, queries=queries)

    def cost(column: np.ndarray) -> float:
        # A generation that the budget cuts short is its last: what it makes of the rest does not matter.
        return float(best.observe(torch.from_numpy(column.T))) if best.left > 0 else WORST

    population = 2 * math.ceil((4 + 3 * math.log(oracle.dim)) / 2)
    with own_randomness(seed, "cr fm nes"):
        strategy = guest("crfmnes").CRFMNES(oracle.dim, cost, np.zeros((oracle.dim, 1)), SIGMA, population)
        while best.left > 0:
            strategy.one_iteration()
    return best.outcome()
