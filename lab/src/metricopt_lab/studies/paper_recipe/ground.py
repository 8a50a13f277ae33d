"""What all value functions of a problem and a seed share: the paper's adapter and one collection of trajectories."""

from dataclasses import replace
from typing import final

import torch

from metricopt.adapters import DynamicBias, FiLM
from metricopt.core.records import Trajectory
from metricopt.core.seeding import derived_seed
from metricopt.data.sampling import Sampling
from metricopt.metrics import mcr
from metricopt.paper.settings import PAPER, Stages
from metricopt.paper.stages import collect_paths, joined_paths, settled
from metricopt_lab.problems import Problem, cifar
from metricopt_lab.problems.cifar import CIFAR_SCALES, NETWORKS
from metricopt_lab.problems.tabular_scales import problem_at

AT_ONCE = 50
"""Tasks that are walked as one population."""


@final
class Ground:
    """A problem with the paper's adapter alone, and trajectories as they are needed.

    The first tasks of a larger collection are those of a smaller one, so that numbers of tasks compare.

    Attributes:
        problem: The problem.
        oracle: Who is asked; it counts the queries of the collection and of all paths that were followed.
        stages: Of the paper, with a rate at which phi moves.
    """

    def __init__(self, problem: Problem, stages: Stages) -> None:
        self.problem, self.oracle = problem, problem.oracle(queries=None)
        self.stages = settled(self.oracle.task, stages, seed=problem.seed)
        self._known: list[Trajectory] = []

    def faster(self, factor: float) -> "Ground":
        """The same problem with another collection, at so many times the rate."""
        assert self.stages.lr is not None, "settled"
        return Ground(self.problem, replace(self.stages, lr=factor * self.stages.lr))

    def paths(self, tasks: int) -> Trajectory:
        """The first so many trajectories."""
        while sum(len(some.phi) for some in self._known) < tasks:
            seed = derived_seed(self.problem.seed, "tasks", len(self._known))
            self._known.append(collect_paths(self.oracle, AT_ONCE, self.stages, seed=seed))
        return joined_paths(self._known).rows(torch.arange(tasks))


def sampling_of(data: str) -> Sampling:
    """How mini-batches are drawn: class-balanced from tables, as in the paper.

    Example:
        >>> sampling_of("a9a"), sampling_of("resnet32")
        ('balanced', 'plain')
    """
    return "plain" if data in NETWORKS else "balanced"


def ground_of(scale: str, data: str, *, seed: int) -> Ground:
    """The paper's problem on a data set: dynamic biases of d = 16 for tables, FiLM of d = 128 for images.

    Example:
        >>> ground = ground_of("smoke", "a9a", seed=0)
        >>> ground.problem.model.dim, ground.paths(3).phi.shape
        (16, torch.Size([3, 50, 16]))
    """
    if data not in NETWORKS:
        problem = problem_at(scale, data, mcr(), sampling=sampling_of(data), seed=seed)
        return Ground(replace(problem, adapter=DynamicBias(dim=16)), PAPER.once if scale == "smoke" else PAPER)
    size = CIFAR_SCALES[scale]
    problem = cifar(data, scale=scale, seed=seed, adapter=FiLM(dim=size.dim, layers=size.layers[data]))
    return Ground(problem, replace(PAPER, steps=200, observations=10))
