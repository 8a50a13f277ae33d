"""Optuna's samplers, what many users reach for: a study over the box, one coordinate of phi a parameter."""

from collections.abc import Callable
from typing import Any

import torch

from metricopt.core.records import Outcome
from metricopt.task.oracle import Oracle
from metricopt_lab.rivals.incumbent import Incumbent
from metricopt_lab.rivals.libraries.box import HALF_WIDTH
from metricopt_lab.rivals.libraries.guest import guest, own_randomness
from metricopt_lab.rivals.named import baseline


@baseline("optuna_tpe", thinks=True)
def optuna_tpe(oracle: Oracle, *, queries: int, seed: int) -> Outcome:
    """Optuna's tree-structured Parzen estimator, its default, in a box around 0.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task = QuadraticTask(dim=4)
        >>> outcome = optuna_tpe(Oracle(task), queries=40, seed=0)
        >>> bool(task.costs(outcome.phi[None]) < task.costs(torch.zeros(1, 4)))
        True
    """
    return _studied(oracle, queries=queries, seed=seed, sampler=lambda samplers, n: samplers.TPESampler(seed=n))


@baseline("optuna_gp", thinks=True)
def optuna_gp(oracle: Oracle, *, queries: int, seed: int) -> Outcome:
    """Optuna's Gaussian process sampler in a box around 0.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task = QuadraticTask(dim=4)
        >>> bool(task.costs(optuna_gp(Oracle(task), queries=30, seed=0).phi[None]) < 0.05)
        True
    """
    return _studied(oracle, queries=queries, seed=seed, sampler=lambda samplers, n: samplers.GPSampler(seed=n))


def _studied(oracle: Oracle, *, queries: int, seed: int, sampler: Callable[[Any, int], Any]) -> Outcome:
    optuna = guest("optuna")
    best = Incumbent(oracle, queries=queries)
    space = {f"phi_{i}": optuna.distributions.FloatDistribution(-HALF_WIDTH, HALF_WIDTH) for i in range(oracle.dim)}
    said = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with own_randomness(seed, "optuna") as number:
            study = optuna.create_study(sampler=sampler(optuna.samplers, number))
            if queries:
                origin = dict.fromkeys(space, 0.0)
                study.add_trial(optuna.trial.create_trial(params=origin, distributions=space, value=_worth(best)))
            while best.left > 0:
                trial = study.ask(space)
                phi = torch.tensor([[trial.params[name] for name in space]])
                study.tell(trial, float(best.observe(phi)))
    finally:
        optuna.logging.set_verbosity(said)
    return best.outcome()


def _worth(best: Incumbent) -> float:
    """The original's cost, the worst one if the metric failed there."""
    return min(best.cost, 1.0)
