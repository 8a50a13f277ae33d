"""Settings of the paper's two stages: ours, the paper's recipe, and its text to the letter."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import torch
from torch.optim import Optimizer

from metricopt.core.errors import BudgetError, ObservationError
from metricopt.core.registry import one_of
from metricopt.paper.collect import Spacing, default_observations
from metricopt.paper.guided import Combine, Estimator
from metricopt.paper.training import PAPER as PAPER_TRAINING
from metricopt.paper.training import Training

OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
"""Base optimizers of paths by name."""


@dataclass(frozen=True)
class Stages:
    """Settings of both stages; the defaults are what works, `PAPER` is the paper's recipe, `PAPER_LETTER` its text.

    Attributes:
        steps: T, finetuning steps of one task.
        observations: K, metric queries along one task; None for max(5, 5% of T).
        spacing: Steps at which they are made: at equal distances, or at random ones for each task.
        start_std: Standard deviation of the coordinates of phi_0. Small, so that trajectories overlap.
        optimizer: Base optimizer of every path.
        lr: Its rate; None for one of SGD at which phi really moves (`paper/rates.py`), found without a query.
        guided_lr: Its rate on paths that a value function leads; None for `lr`.
        rounds: Rounds of collecting; from the second on, paths follow the value function learnt so far.
        held_out: Share of the trajectories kept for diagnostics.
        uncertainty: Use the interpolation's own standard deviations (False: the paper's ablation without s_t).
        training: How the value network is fitted.
        combine: What is done with u_t: added to the loss gradient (Eq. 1) or in its place.
        estimator: Eq. 4 by sampling, or its mean in closed form.
        weight: lambda of Eq. 1.
        normalise: Scale u_t so that a rate means the same for any dim; the paper does not.
        workers: Processes that walk the paths, in groups of tasks with random numbers of their own, so that their
            number changes nothing; None for one population in this process.

    Example:
        >>> Stages(rounds=1).least_queries, PAPER.queries_a_task
        (20, 3)
    """

    steps: int = 50
    observations: int | None = None
    spacing: Spacing = "even"
    start_std: float = 0.3
    optimizer: Literal["sgd", "adam"] = "adam"
    lr: float | None = 0.05
    guided_lr: float | None = None
    rounds: int = 2
    held_out: float = 0.2
    uncertainty: bool = True
    training: Training = field(default_factory=Training)
    combine: Combine = "add"
    estimator: Estimator = "exact"
    weight: float = 1.0
    normalise: bool = True
    workers: int | None = None

    def __post_init__(self) -> None:
        one_of(self.optimizer, tuple(OPTIMIZERS), what="optimizer")
        one_of(self.spacing, get_args(Spacing), what="spacing")
        one_of(self.combine, get_args(Combine), what="combine")
        one_of(self.estimator, get_args(Estimator), what="estimator")
        if self.lr is None and self.optimizer != "sgd":
            raise BudgetError(f"lr is None with optimizer={self.optimizer!r}; rates are found for 'sgd': state one")
        if self.rounds < 1:
            raise BudgetError(f"rounds is {self.rounds}; expected at least 1 round of collecting")
        if not 2 <= self.queries_a_task <= self.steps:
            raise ObservationError(
                f"{self.queries_a_task} metric observations in {self.steps} steps; expected between 2 and "
                f"{self.steps}: change observations or steps"
            )
        if not 0 < self.held_out < 1:
            raise ObservationError(f"held_out is {self.held_out}; expected a share of trajectories between 0 and 1")

    @property
    def queries_a_task(self) -> int:
        """K, as a number."""
        return default_observations(self.steps) if self.observations is None else self.observations

    @property
    def least_queries(self) -> int:
        """What stage 1 takes at least: 4 trajectories a round."""
        return 4 * self.queries_a_task * self.rounds

    @property
    def once(self) -> "Stages":
        """The same with one meta-update a task, however few tasks there are."""
        return replace(self, training=replace(self.training, meta_updates=1))

    def trained_by(self, training: Training) -> "Stages":
        """The same with another training of the value network, which goes through the tasks as often."""
        return replace(self, training=replace(training, meta_updates=self.training.meta_updates))


PAPER = Stages(
    observations=3,
    spacing="random",
    start_std=1.0,
    optimizer="sgd",
    lr=None,
    rounds=1,
    training=replace(PAPER_TRAINING, norm="none", standardise=True),
    combine="replace",
    estimator="es",
    normalise=False,
)
"""The paper's two stages with two declared deviations: phi and targets are standardised, and the value network has no
BatchNorm, which would be over a single trajectory. K is 5% of T = 50, rounded up; Eq. 4 is in the gradient's place.
"""

PAPER_LETTER = replace(PAPER, training=PAPER_TRAINING)
"""The same without the two deviations, the text to the letter: its value function learns next to nothing."""
