"""CMA-ES (Hansen 2016), as implemented by its author in pycma.

Its first step size was chosen among .1, .3, .6, 1 and 2 by the error on accept rows never queried (means of seeds 100
and 101, after 150 / 500 queries).
covtype_shift_mcr (start .401): .380 / .375, .379 / .368, .373 / .353, .370 / .352 and
.371 / .351. a9a_plain_f1 (start .334): .310 / .309, .311 / .297, .302 / .295, .301 / .300 and .302 / .304. With dynamic
biases, which act more strongly than FiLM, .1 to 1 were equal within noise on accept rows (.314 - .321 after 300), and
on the rows searched 1 was worse than .6 (.295 against .288). Hence .6.
"""

from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from metricopt.core.records import Outcome
from metricopt.core.seeding import derived_seed
from metricopt.task.oracle import Oracle
from metricopt_lab.rivals.incumbent import Incumbent
from metricopt_lab.rivals.named import baseline

SIGMA = 0.6


@baseline("cma_es")
def cma_es(oracle: Oracle, *, queries: int, seed: int) -> Outcome:
    """CMA-ES from phi = 0 with pycma's own settings, the best vector queried.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task = QuadraticTask(dim=4)
        >>> bool(task.costs(cma_es(Oracle(task), queries=150, seed=0).phi[None]) < 0.02)
        True
    """
    best = Incumbent(oracle, queries=queries)
    search_cma(best, sigma=SIGMA, seed=seed)
    return best.outcome()


def search_cma(best: Incumbent, *, sigma: float, seed: int) -> None:
    """Improve `best` by CMA-ES around it until its queries are spent."""
    if best.left <= 0:
        return
    random = np.random.default_rng(derived_seed(seed, "baseline", "cma"))
    options = {
        # pycma would seed numpy's global generator; with NaN it leaves that alone and draws from ours.
        "seed": np.nan,
        "randn": lambda *shape: random.standard_normal(shape),
        "verbose": -10,
        "verb_log": 0,
        "verb_disp": 0,
    }
    strategy = _pycma().CMAEvolutionStrategy(best.phi.double().numpy(), sigma, options)
    # Its tests for convergence are not asked: a flat stretch of a metric is no reason to leave queries unused.
    while best.left > 0:
        asked = strategy.ask()
        costs = best.observe(_population(asked))
        if len(costs) == len(asked):
            strategy.tell(asked, costs.tolist())


def _population(vectors: list[np.ndarray]) -> Tensor:
    return torch.from_numpy(np.stack(vectors)).to(torch.float32)


def _pycma() -> ModuleType:
    try:
        import cma
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "the package 'cma' is not installed, but the rival cma_es is made of it: pip install cma"
        ) from error
    return cma
