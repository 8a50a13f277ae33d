"""The learned optimizers of Figure 4, PowerSign-cd, and versions of all that no search changes."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from metricopt.paper.learned.online_value import cautious
from metricopt.paper.learned.weights import LearnedWeights, load_optimizer
from metricopt.paper.network import ValueNetwork
from metricopt.paper.value_function import ValueFunction
from metricopt.task.base import Task
from metricopt.task.oracle import Oracle
from metricopt_lab.figures.film_paths import loss_led_path
from metricopt_lab.optimizers import lstm
from metricopt_lab.optimizers.own import OWN_VERSION
from metricopt_lab.optimizers.paths import Metric, learned_path
from metricopt_lab.optimizers.power_sign import PowerSign

VERSIONS = {
    "sgd": 2,
    "adam": 2,
    "metricopt_sgd": 2,
    "metricopt_adam": 2,
    "power_sign": 1,
    "lstm": 1,
    "mlp": 1,
    "metricopt_learned": 2,
    "metricopt_learned_value": 2,
    "metricopt_learned_whole": OWN_VERSION,
}
"""Of methods that no search changes; to be bumped with any change of their results, new weights among them."""

WEIGHTS: dict[str, str | Path] = {
    "lstm": Path(lstm.__file__).parent / "shipped" / "cifar10_lstm",
    "mlp": "cifar10_loss",
    "metricopt_learned": "cifar10_aucpr",
    "metricopt_learned_value": "cifar10_aucpr_value",
}
"""Names of the weights that come with the library; those of a rule of the laboratory are beside it."""

MULTIPLES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Of the rate that weights were trained with: as many as SGD and Adam have rates to try."""


class Tries(NamedTuple):
    """What is tried.

    Attributes:
        rates: As many as of any other method.
        path_at: The path (steps + 1, dim) at a rate.
        about: Of learned weights what their manifest says; nothing of others.
    """

    rates: tuple[float, ...]
    path_at: Callable[[float], Tensor]
    about: dict[str, Any]


def power_sign(task: Task, *, steps: int, seed: int, rates: tuple[float, ...]) -> Tries:
    """PowerSign-cd at the rates of SGD."""

    def path_at(rate: float) -> Tensor:
        return loss_led_path(task, partial(PowerSign, lr=rate, steps=steps), steps=steps, seed=seed)

    return Tries(rates, path_at, {})


def learned(method: str, oracle: Oracle, *, steps: int, seed: int, value: ValueFunction | None) -> Tries:
    """A learned optimizer with its weights.

    Args:
        method: One of `WEIGHTS`.
        oracle: Asked where the rule is to be told the metric and no value function is kept.
        steps: Of the path.
        seed: Of the mini-batches.
        value: The value function that is kept, if any.
    """
    weights = load_optimizer(WEIGHTS[method])
    settings = weights.about["settings"]
    kept = cautious(value, settings["caution"]) if isinstance(value, ValueNetwork) else value

    def path_at(rate: float) -> Tensor:
        return learned_path(
            oracle.task,
            weights,
            lr=rate,
            steps=steps,
            seed=seed,
            metric=_metric(weights, oracle, kept),
            every=settings["metric_every"],
            value=kept,
        )

    return Tries(tuple(weights.rule.lr * multiple for multiple in MULTIPLES), path_at, dict(weights.about))


def _metric(weights: LearnedWeights, oracle: Oracle, value: ValueFunction | None) -> Metric | None:
    if not weights.about["settings"]["weight"]:
        return None
    return value if value is not None else partial(oracle.observe, stage="told")
