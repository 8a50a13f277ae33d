"""The logarithm of the expected improvement (Ament et al. 2023) of a Gaussian process, maximised by BoTorch."""

import torch
from torch import Tensor

from metricopt.core.records import Outcome
from metricopt.task.oracle import Oracle
from metricopt_lab.rivals.libraries.box import Box
from metricopt_lab.rivals.libraries.guest import own_randomness
from metricopt_lab.rivals.libraries.surrogate import Surrogate
from metricopt_lab.rivals.named import baseline

FIRST = 10
"""Points of a Sobol sequence before the first fit, with the original model."""

LEAST_NOISE = 1e-3
"""Of an answer, where resamples know of none: what would be certain to the last digit no process can be fitted to."""


@baseline("gp_log_ei", thinks=True)
def gp_log_ei(oracle: Oracle, *, queries: int, seed: int) -> Outcome:
    """BoTorch's Gaussian process with dimension-scaled length scales and LogEI in a box around 0.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task = QuadraticTask(dim=4)
        >>> bool(task.costs(gp_log_ei(Oracle(task), queries=30, seed=0).phi[None]) < 0.05)
        True
    """
    with own_randomness(seed, "log ei") as number:
        return improved(Box(oracle, queries=queries), Surrogate(), seed=number).best.outcome()


@baseline("gp_log_ei_told", thinks=True)
def gp_log_ei_told(oracle: Oracle, *, queries: int, seed: int) -> Outcome:
    """The same, told how noisy an answer is (its standard deviation over resampled rows, whose calls are extra).

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task = QuadraticTask(dim=4)
        >>> bool(task.costs(gp_log_ei_told(Oracle(task), queries=30, seed=0).phi[None]) < 0.05)
        True
    """
    if not queries:
        return Box(oracle, queries=0).best.outcome()
    with own_randomness(seed, "log ei") as number:
        surrogate = Surrogate(noise=max(oracle.noise_std(), LEAST_NOISE))
        return improved(Box(oracle, queries=queries), surrogate, seed=number).best.outcome()


def improved(box: Box, surrogate: Surrogate, *, seed: int) -> Box:
    """The box with all its queries spent where the process expects most."""
    box.ask(sobol(min(FIRST, box.best.left), box.points.shape[1], seed))
    while box.best.left > 0:
        box.ask(_most_promising(surrogate, box))
    return box


def sobol(count: int, dim: int, seed: int) -> Tensor:
    """Scrambled Sobol points of the unit cube, (count, dim).

    Example:
        >>> sobol(4, 2, seed=0).shape
        torch.Size([4, 2])
    """
    engine = torch.quasirandom.SobolEngine(dim, scramble=True, seed=seed % 2**31)
    return engine.draw(max(count, 1), dtype=torch.float64)[:count]


def _most_promising(surrogate: Surrogate, box: Box) -> Tensor:
    from botorch.acquisition import LogExpectedImprovement
    from botorch.optim import optimize_acqf

    dim = box.points.shape[1]
    improvement = LogExpectedImprovement(surrogate.given(box), best_f=box.values.max())
    point, _ = optimize_acqf(
        improvement,
        bounds=torch.stack([torch.zeros(dim), torch.ones(dim)]).double(),
        q=1,
        num_restarts=4,
        raw_samples=256,
        options={"sample_around_best": True, "maxiter": 50},
    )
    return point.detach()
