"""Finetuning of FiLM's phi on CIFAR-10 along a loss, a value function or both, at a rate chosen on search images."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from metricopt.adapters import FiLM
from metricopt.core.errors import MetricOptWarning
from metricopt.core.seeding import stream
from metricopt.task.base import Task
from metricopt.task.finetuning import OptimizerFactory, finetuning
from metricopt.task.oracle import Oracle
from metricopt_lab.problems import Problem, cifar
from metricopt_lab.problems.cifar import CIFAR_SCALES

OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
"""Base optimizers by name."""

FAILED = 1.0
"""What a path counts as that ends where the metric fails: the highest cost there is."""


def film_problem(network: str, *, scale: str, seed: int) -> Problem:
    """The paper's problem for a network with the paper's adapter: FiLM alone.

    Example:
        >>> film_problem("small_convnet", scale="smoke", seed=0).task().dim  # doctest: +SKIP
        128
    """
    # The output affine, which the default adapter has too, cannot change a ranking by logits, and the loss falls along
    # it most steeply: plain SGD would move little else, until a class's scale changes its sign.
    size = CIFAR_SCALES[scale]
    problem = cifar(network, scale=scale, seed=seed, adapter=FiLM(dim=size.dim, layers=size.layers[network]))
    return replace(problem, notes=f"{problem.notes.partition(', and the output affine')[0]}, alone")


def loss_led_path(task: Task, optimizer: OptimizerFactory, *, steps: int, seed: int) -> Tensor:
    """Vectors from phi = 0 on, (steps + 1, dim), of an optimizer that is given the loss gradient of mini-batches.

    Example:
        >>> from functools import partial
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> loss_led_path(QuadraticTask(dim=2), partial(torch.optim.SGD, lr=0.1), steps=5, seed=0).shape
        torch.Size([6, 2])
    """
    start = torch.zeros(1, task.dim)
    batches = task.batches(1, stream(seed, "finetuning path"))
    walked = finetuning(task, start, batches, steps=steps, optimizer=optimizer)
    return torch.cat([start, *(step.phi.clone() for step in walked)])


def value_led_path(dim: int, optimizer: OptimizerFactory, *, steps: int) -> Tensor:
    """Vectors from phi = 0 on, (steps + 1, dim), of a guided optimizer that is given no loss at all.

    Example:
        >>> from metricopt.paper.guided import MetricGuided
        >>> def guided(parameters):
        ...     base = torch.optim.SGD(parameters, lr=0.1)
        ...     return MetricGuided(base, lambda x: (x - 1).square().sum(1), combine="replace", estimator="exact")
        >>> value_led_path(2, guided, steps=14)[-1].round(decimals=1)
        tensor([1., 1.])
    """
    phi = torch.nn.Parameter(torch.zeros(1, dim))
    stepper, path = optimizer([phi]), [torch.zeros(dim)]
    for _ in range(steps):
        stepper.step()
        path.append(phi.detach()[0].clone())
    return torch.stack(path)


@dataclass(frozen=True)
class Tuned:
    """The path at the rate whose end was best on the search images.

    Attributes:
        rate: That rate.
        path: Its vectors, (steps + 1, dim).
        tried: Cost on the search images at the end of the path, by rate.
    """

    rate: float
    path: Tensor
    tried: Mapping[float, float]


def tuned(oracle: Oracle, path_at: Callable[[float], Tensor], rates: Sequence[float]) -> Tuned:
    """The path whose end has the lowest cost on the search images; one query a rate.

    Args:
        oracle: Who is asked.
        path_at: The path (steps + 1, dim) at a rate.
        rates: What to try; the first of equals is taken.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task = QuadraticTask(dim=2)
        >>> oracle = Oracle(task)
        >>> best = tuned(oracle, lambda rate: rate * torch.stack([torch.zeros(2), task.loss_optimum]), [0.1, 1.0])
        >>> best.rate, oracle.ledger.used
        (1.0, 2)
    """
    with warnings.catch_warnings():
        # Too high a rate leaves the numbers there are; that is what trying it is for.
        warnings.simplefilter("ignore", MetricOptWarning)
        paths = [path_at(rate) for rate in rates]
        costs = oracle.observe(torch.stack([path[-1] for path in paths])).nan_to_num(nan=FAILED)
    best = int(costs.argmin())
    return Tuned(rates[best], paths[best], dict(zip(rates, costs.tolist(), strict=True)))
