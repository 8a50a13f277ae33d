"""What Figure 3 compares: value functions trained in several ways on the same paths, and ways of following one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Literal, final

import torch
from torch import Tensor
from torch.optim import Adam, Optimizer

from metricopt.core.records import LabelledTrajectory, Trajectory
from metricopt.core.seeding import stream
from metricopt.paper.collect import collect
from metricopt.paper.guided import Estimator, MetricGuided
from metricopt.paper.interpolate import interpolate
from metricopt.paper.network import ValueNetwork
from metricopt.paper.training import PAPER, Training, fit
from metricopt.paper.value_function import ValueFunction
from metricopt.task.base import Task
from metricopt.task.finetuning import OptimizerFactory
from metricopt_lab.figures.film_paths import Tuned, loss_led_path, tuned, value_led_path
from metricopt_lab.problems import Problem
from metricopt_lab.problems.cifar import NETWORKS

COLLECTING = 0.1
"""Adam's rate on the paths that value functions are learnt from, and on guided ones in a second round."""

HELD_OUT = 0.2
"""Share of the paths that no value function learns from."""


@dataclass(frozen=True)
class Variant:
    """A way of training a value function.

    Attributes:
        training: How it is fitted.
        rounds: 2 replaces half of the paths by ones that follow the value function learnt from the other half.
        uncertainty: Whether the interpolation's s_t differ, or are all their average.
        floor: Whether no s_t is smaller than the noise that finitely many images leave in the metric. The paper has no
            floor. On CIFAR-10 that noise exceeds every s_t: they come out equal, and L_oe finds few triplets.

    Example:
        >>> VARIANTS["rounds-no-oe"].rounds, VARIANTS["rounds-no-oe"].training.ordinal
        (2, 0.0)
    """

    training: Training = field(default_factory=Training)
    rounds: Literal[1, 2] = 1
    uncertainty: bool = True
    floor: bool = False


# BatchNorm removes from a path just what tells it from the others, so that Reptile's function comes out flat: in
# "reptile" it is left out, "paper" has it.
_KINDS = {
    "offline": Variant(),
    "reptile": Variant(Training(scheme="reptile", norm="none")),
    "rounds": Variant(rounds=2),
}
VARIANTS: Mapping[str, Variant] = {
    **{f"{name}{suffix}": change(kind)
       for name, kind in _KINDS.items()
       for suffix, change in {
           "": lambda kind: kind,
           "-no-oe": lambda kind: replace(kind, training=replace(kind.training, ordinal=0.0)),
           "-no-s": lambda kind: replace(kind, uncertainty=False),
       }.items()},
    "offline-floor": Variant(floor=True),
    "paper": Variant(PAPER),
}  # fmt: skip
"""Value functions of panels (a) and (b) by name."""

Signal = Literal["loss", "metric", "subspace", "both"]


@dataclass(frozen=True)
class Scheme:
    """A way of meta-testing.

    Attributes:
        signal: The loss gradient; u_t searched in all directions alike, without any loss; u_t searched mostly among
            loss gradients; or the sum of the last one and the loss gradient.
        estimator: Eq. 4 by sampling, or in closed form from the gradient of f.

    Example:
        >>> SCHEMES["both-es"].signal
        'both'
    """

    signal: Signal
    estimator: Estimator = "exact"


SCHEMES: Mapping[str, Scheme] = {
    "loss": Scheme("loss"),
    "metric-es": Scheme("metric", "es"),
    "metric-exact": Scheme("metric"),
    "subspace-es": Scheme("subspace", "es"),
    "subspace-exact": Scheme("subspace"),
    "both-es": Scheme("both", "es"),
    "both-exact": Scheme("both"),
}
"""Ways of panel (c) by name."""


@dataclass(frozen=True)
class Effort:
    """What a scale grants a network.

    Attributes:
        tasks: Paths that value functions learn from, those held out included.
        steps: T, steps of a path.
        observations: K, metric queries along it.
        finetuning: Steps of a path that follows a value function.
        rates: Adam's rates, of which every path takes the one that is best on the search images.
        variants: Value functions that are trained.
        fitting: Gradient steps of one that is trained offline.

    Example:
        >>> EFFORTS["paper"]["resnet32"].tasks, EFFORTS["paper"]["resnet32"].observations
        (500, 10)
    """

    tasks: int
    steps: int
    observations: int
    finetuning: int
    rates: tuple[float, ...] = (0.01, 0.03, 0.1)
    variants: tuple[str, ...] = tuple(VARIANTS)
    fitting: int = 400


# Second rounds need paths of their own, and ResNet-32 takes most of the time without them.
_ONE_ROUND = tuple(name for name, variant in VARIANTS.items() if variant.rounds == 1)
EFFORTS: Mapping[str, Mapping[str, Effort]] = {
    "smoke": {"small_convnet": Effort(10, 10, 5, finetuning=10, rates=(0.03, 0.1), fitting=20)},
    "small": {
        "small_convnet": Effort(60, 50, 5, finetuning=200),
        "resnet32": Effort(24, 50, 5, finetuning=50, variants=_ONE_ROUND),
    },
    "paper": {name: Effort(500, 200, 10, finetuning=200) for name in NETWORKS},
}
"""What each scale grants each of its networks."""


@final
class Bench:
    """A problem, paths of it that are walked once, and what is learnt from them.

    Attributes:
        problem: Its seed is that of everything random.
        effort: What is granted.
    """

    def __init__(self, problem: Problem, effort: Effort) -> None:
        self.problem, self.effort, self.seed = problem, effort, problem.seed
        self.oracle = problem.oracle(queries=None)
        self.task: Task = self.oracle.task

    @cached_property
    def before(self) -> float:
        """Cost of the pre-trained network on test images."""
        return float(self.problem.costs(torch.zeros(1, self.task.dim), "test"))

    @cached_property
    def paths(self) -> tuple[Trajectory, Trajectory]:
        """Paths of the loss alone: those to learn from, and those held out from every value function."""
        whole = self._collected(self.effort.tasks, partial(Adam, lr=COLLECTING), "paths")
        cut = self.effort.tasks - max(1, round(HELD_OUT * self.effort.tasks))
        return whole.rows(torch.arange(cut)), whole.rows(torch.arange(cut, self.effort.tasks))

    @property
    def unseen(self) -> tuple[Tensor, Tensor]:
        """Vectors (n, dim) observed on held-out paths, and their costs (n,)."""
        paths = self.paths[1]
        return paths.observed_phi.flatten(0, 1), paths.costs.flatten().float()

    @property
    def queries(self) -> int:
        """Queries that any of the value functions rests on, those on held-out paths included."""
        return self.effort.tasks * self.effort.observations

    def value(self, variant: Variant) -> ValueNetwork:
        """A value function; each is learnt from as many paths as any other."""
        kept = self.paths[0]
        if variant.rounds == 1:
            return self._fitted([kept], variant)
        half = len(kept.phi) // 2
        plain = kept.rows(torch.arange(half))
        follow = stepper(SCHEMES["both-exact"], self._fitted([plain], variant), rate=COLLECTING, seed=self.seed)
        return self._fitted([plain, self._collected(len(kept.phi) - half, follow, "second round")], variant)

    @cached_property
    def usual(self) -> ValueNetwork:
        """The value function that all schemes follow: one round, trained offline, with L_oe and s_t."""
        return self.value(VARIANTS["offline"])

    def followed(self, value: ValueFunction, scheme: Scheme) -> Tuned:
        """The path from phi = 0 that follows a value function in some way, at the best rate of those granted."""
        steps, dim, seed = self.effort.finetuning, self.task.dim, self.seed

        def path(rate: float) -> Tensor:
            make = stepper(scheme, value, rate=rate, seed=seed)
            if scheme.signal == "metric":
                return value_led_path(dim, make, steps=steps)
            return loss_led_path(self.task, make, steps=steps, seed=seed)

        return tuned(self.oracle, path, self.effort.rates)

    def _fitted(self, parts: Sequence[Trajectory], variant: Variant) -> ValueNetwork:
        labelled = [labelled_by(variant, paths) for paths in parts]
        joined = LabelledTrajectory(
            torch.cat([each.phi for each in labelled]),
            torch.cat([each.mean for each in labelled]),
            torch.cat([each.std for each in labelled]),
        )
        training = replace(variant.training, steps=self.effort.fitting)
        # The same first weights and batches for all, so that they differ in what their names say only.
        return fit(joined, training, generator=stream(self.seed, "value"))

    def _collected(self, tasks: int, optimizer: OptimizerFactory, name: str) -> Trajectory:
        generator = stream(self.seed, name)
        return collect(
            self.oracle,
            steps=self.effort.steps,
            observations=self.effort.observations,
            optimizer=optimizer,
            start=torch.randn(tasks, self.task.dim, generator=generator),
            generator=generator,
        )


def stepper(scheme: Scheme, value: ValueFunction, *, rate: float, seed: int) -> OptimizerFactory:
    """The optimizer of a scheme: Adam, plain or guided.

    Example:
        >>> make = stepper(SCHEMES["loss"], lambda x: x.sum(1), rate=0.1, seed=0)
        >>> type(make([torch.nn.Parameter(torch.zeros(1, 2))])).__name__
        'Adam'
    """
    if scheme.signal == "loss":
        return partial(Adam, lr=rate)
    combine: Callable[..., Optimizer] = partial(
        MetricGuided,
        value=value,
        combine="add" if scheme.signal == "both" else "replace",
        estimator=scheme.estimator,
        seed=seed,
    )
    return lambda parameters: combine(Adam(parameters, lr=rate))


def labelled_by(variant: Variant, paths: Trajectory) -> LabelledTrajectory:
    """Costs and s_t at every step of paths, as a variant wants them."""
    known = paths if variant.floor else replace(paths, noise_std=0.0)
    return interpolate(known, uncertainty=variant.uncertainty)
