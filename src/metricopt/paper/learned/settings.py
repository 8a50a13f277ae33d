"""Settings of meta-training, and what is known of each of its iterations."""

from dataclasses import dataclass, field
from typing import get_args

from metricopt.core.errors import ObservationError
from metricopt.core.registry import one_of
from metricopt.paper.collect import default_observations
from metricopt.paper.learned.equation_s1_rule import MlpRule
from metricopt.paper.learned.equation_s3_estimators import Estimator
from metricopt.paper.learned.signals import Rule
from metricopt.paper.training import Training


@dataclass(frozen=True)
class MetaTraining:
    """Settings of Algorithm S1.

    Attributes:
        rule: The update rule to be trained.
        iterations: Meta-updates.
        tasks: Tasks of one of them, each an antithetic pair of weights; all are one population.
        steps: T, steps of a task.
        observations: K, metric queries along a task; None for max(5, 5% of T).
        start_std: The coordinates of phi_0 have a standard deviation between 0 and this, drawn for each task: at
            meta-test phi starts at 0.
        std: Standard deviation of the weights' noise; the paper's variance of .01.
        estimator: By evolution strategies, through the unroll, or by both.
        weight: lambda of Eq. S2; 0 for the loss alone, which asks no metric.
        meta_lr: First rate of Adam on the weights; it falls linearly to a tenth.
        clip: Bound of each coordinate of the gradient, for an objective of the size of 1.
        ceiling: An objective above it, for one of the size of 1, counts as exploded, as one that is no number does.
        metric_every: Steps between two estimates of the metric that the rule is told.
        warm_up: First iterations, which teach the value function alone.
        value: How the value function learns in each iteration.
        caution: Standard deviations of the value ensemble that its mean is raised by: without any, a rule soon leads
            where nothing was observed and f is wrong.
        second_order: Differentiate the loss's gradient too.
        truncation: Steps after which the derivative forgets what came later; None for the full unroll.
        memory: Bytes that the mini-batches and states of an unroll may take.

    Example:
        >>> MetaTraining(tasks=8, iterations=125).all_tasks, MetaTraining(weight=0.0).queries
        (1000, 0)
    """

    rule: Rule = field(default_factory=MlpRule)
    iterations: int = 100
    tasks: int = 8
    steps: int = 200
    observations: int | None = None
    start_std: float = 0.3
    std: float = 0.1
    estimator: Estimator = "both"
    weight: float = 50.0
    meta_lr: float = 0.003
    clip: float = 0.1
    ceiling: float = 10.0
    metric_every: int = 20
    warm_up: int = 3
    value: Training = field(default_factory=lambda: Training(steps=100))
    caution: float = 0.0
    second_order: bool = True
    truncation: int | None = None
    memory: int = 2**32

    def __post_init__(self) -> None:
        one_of(self.estimator, get_args(Estimator), what="estimator")
        counts = ("iterations", "steps", "metric_every")
        wrong = next((name for name in counts if getattr(self, name) < 1), None)
        if wrong is not None:
            raise ValueError(f"{wrong} is {getattr(self, wrong)}; expected at least 1")
        if self.tasks < 2:
            raise ValueError(f"tasks is {self.tasks}; expected at least 2: variances are taken over them")
        if self.std <= 0 or self.weight < 0:
            raise ValueError(f"std is {self.std} and weight {self.weight}; expected a positive and no negative number")
        if self.weight and not 2 <= self.queries_a_task <= self.steps:
            raise ObservationError(
                f"{self.queries_a_task} metric observations in {self.steps} steps; expected between 2 and "
                f"{self.steps}: change observations or steps"
            )

    @property
    def queries_a_task(self) -> int:
        """K, as a number; 0 where no metric is asked."""
        if not self.weight:
            return 0
        return default_observations(self.steps) if self.observations is None else self.observations

    @property
    def all_tasks(self) -> int:
        """Tasks of all iterations."""
        return self.iterations * self.tasks

    @property
    def queries(self) -> int:
        """Metric queries of all iterations at most: paths that explode are not asked about."""
        return self.all_tasks * self.queries_a_task

    @property
    def scale(self) -> float:
        """Size of the objective, whose parts are of the size of 1."""
        return self.weight + 1


@dataclass(frozen=True)
class Iteration:
    """What one iteration did.

    Attributes:
        number: From 0 on.
        objective: L_opt, mean over the unrolls that did not explode; NaN while the value function is not known.
        loss: Mean loss at the end of these.
        exploded: Unrolls whose pair was left out.
        share: Mean weight of evolution strategies in the combination; NaN without an update.
        correlation: Rank correlation of the value function with the new observations, before it learnt from them; NaN
            where it knew nothing yet.
        updated: Whether the optimizer's weights moved.
        taken_back: Whether they went back, because the value function was wrong about where they had led.
        queries: Metric queries of this iteration.

    Example:
        >>> Iteration(0, 1.5, 0.4, 0, 0.5, 0.9, True, False, 80).updated
        True
    """

    number: int
    objective: float
    loss: float
    exploded: int
    share: float
    correlation: float
    updated: bool
    taken_back: bool
    queries: int
