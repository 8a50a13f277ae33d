"""Figure (n): what learning an optimizer takes beside learning the value function alone, with the same queries."""

from functools import partial

import torch

from metricopt.core.records import Trajectory, at_steps
from metricopt.core.seeding import stream
from metricopt.paper.collect import collect, observed_steps
from metricopt.paper.interpolate import interpolate
from metricopt.paper.learned.equation_s1_rule import MlpRule
from metricopt.paper.learned.equation_s2_objective import optimizer_objective
from metricopt.paper.learned.equation_s3_estimators import noisy_pairs
from metricopt.paper.learned.online_value import OnlineValue
from metricopt.paper.learned.unroll import Unroll
from metricopt.paper.training import Training
from metricopt.task.oracle import Oracle
from metricopt.task.supervised import SupervisedTask
from metricopt_lab.speed.figures import FIGURES, Effort, Figure, Label, ratio
from metricopt_lab.speed.learned_optimizers import small_network
from metricopt_lab.speed.problems import tabular_task

_TASKS, _STEPS, _OBSERVATIONS = 8, 20, 4


@FIGURES.add("n")
def joint_learning(effort: Effort) -> list[Figure]:
    """One iteration of Algorithm S1 / one of Algorithm 1.

    Example:
        >>> len(joint_learning(Effort(repeats=1, quick=True)))
        2
    """
    fewer = Effort(max(1, effort.repeats // 3), quick=effort.quick)
    tabular = tabular_task(batch_size=32, train=effort.of(4_000, 100), search=effort.of(500, 50))
    problems = [
        ("A9A MLP, d = 18, batch 32", tabular),
        ("the small network of CIFAR-10, d = 128, batch 32", small_network(effort, 32)),
    ]
    figures = []
    for what, task in problems:
        work = _Iteration(task, tasks=effort.of(_TASKS, 2), steps=effort.of(_STEPS, 4))
        label = Label(
            "n",
            f"optimizer and value function / value function alone, {work.tasks} tasks, {what}",
            target=3.0,
            sense="at least",
            note=f"what the paper says, not a bound to keep; T = {work.steps}, {_OBSERVATIONS} queries a task in both, "
            f"paths by SGD where the value function is alone",
        )
        figures.append(ratio(label, work.joint, work.alone, fewer))
    return figures


class _Iteration:
    def __init__(self, task: SupervisedTask, *, tasks: int, steps: int) -> None:
        self.tasks, self.steps, self.oracle = tasks, steps, Oracle(task)
        self.rule, self.training = MlpRule(), Training(steps=50)
        self.value = self._fresh()
        self._learn(self._collected())
        self.unroll = Unroll(task, self.rule, self.value.network, lr=0.02, metric_every=5)

    def alone(self) -> None:
        """Algorithm 1: paths by SGD, queries, interpolation, learning."""
        self.value = self._fresh()
        self._learn(self._collected())

    def joint(self) -> None:
        """Algorithm S1: paths of antithetic pairs, queries, the derivative through them, interpolation, learning."""
        draw = stream(0, "joint")
        weights = noisy_pairs(self.rule.initial(draw), 0.03 * torch.randn(self.tasks, self.rule.size, generator=draw))
        drawn = self.oracle.task.batches(self.tasks, draw)
        batches = [next(drawn) for _ in range(self.steps + 1)]
        path = self.unroll.forward(weights, torch.zeros(2 * self.tasks, self.oracle.dim), batches)
        self.unroll.gradients(weights, path, batches, self._objective)
        phi, loss = path.phi[: self.tasks], path.loss[: self.tasks]
        steps = observed_steps(self.tasks, phi.shape[1], _OBSERVATIONS, draw=draw)
        costs = self.oracle.observe(at_steps(phi, steps).flatten(0, 1)).view(steps.shape)
        self.value = self._fresh()
        self._learn(Trajectory(phi, loss, steps, costs, noise_std=self.oracle.noise_std()))

    def _fresh(self) -> OnlineValue:
        return OnlineValue(self.oracle.dim, self.training, generator=stream(0, "value"))

    def _learn(self, paths: Trajectory) -> None:
        self.value.learn(interpolate(paths), rate=1.0, generator=stream(0, "learning"))

    def _collected(self) -> Trajectory:
        start = torch.zeros(self.tasks, self.oracle.dim)
        sgd = partial(torch.optim.SGD, lr=0.1)
        return collect(
            self.oracle, steps=self.steps, observations=_OBSERVATIONS, optimizer=sgd, start=start,
            generator=stream(0, "alone"),
        )  # fmt: skip

    def _objective(self, losses: torch.Tensor, phi: torch.Tensor) -> torch.Tensor:
        value = self.unroll.value
        assert value is not None
        return optimizer_objective(losses, value(phi.flatten(0, 1)).view(phi.shape[:2]))
