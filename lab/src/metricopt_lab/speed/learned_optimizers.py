"""Figure (m): meta-training of a learned optimizer, tasks one after the other / all of them as one population."""

from functools import partial

import torch

from metricopt.adapters import FiLM, adapt
from metricopt.core.seeding import stream
from metricopt.losses import cross_entropy
from metricopt.metrics import mcr
from metricopt.paper.learned.equation_s1_rule import MlpRule
from metricopt.paper.learned.equation_s2_objective import optimizer_objective
from metricopt.paper.learned.equation_s3_estimators import noisy_pairs
from metricopt.paper.learned.unroll import Unroll
from metricopt.task.supervised import SupervisedTask
from metricopt_lab.networks import small_convnet
from metricopt_lab.speed.figures import FIGURES, Effort, Figure, Label, ratio
from metricopt_lab.speed.problems import images, tabular_task, value_network

_TASKS, _STEPS = 32, 5


@FIGURES.add("m")
def unrolled_tasks(effort: Effort) -> list[Figure]:
    """Unrolls of 32 antithetic pairs and their derivative, looped / batched.

    Example:
        >>> len(unrolled_tasks(Effort(repeats=1, quick=True)))
        3
    """
    fewer = Effort(max(1, effort.repeats // 4), quick=effort.quick)
    tabular = partial(tabular_task, train=effort.of(4_000, 100), search=effort.of(500, 50))
    problems = [
        ("A9A MLP, d = 18, batch 32", tabular(batch_size=32), 8.0),
        ("the small network of CIFAR-10, d = 128, batch 32", small_network(effort, 32), 8.0),
        ("the same, batch 128", small_network(effort, 128), None),
    ]
    figures = []
    for what, task, target in problems:
        work = _Work(task, tasks=effort.of(_TASKS, 2), steps=effort.of(_STEPS, 2))
        label = Label(
            "m",
            f"looped / batched unrolls of {work.tasks} tasks and their derivative, {what}",
            target=target,
            sense="at least",
            note=f"T = {work.steps}, Eq. S1, second order, both with the prefix cache; looped: one pair after another",
        )
        figures.append(ratio(label, work.looped, work.batched, fewer))
    return figures


def small_network(effort: Effort, batch_size: int) -> SupervisedTask:
    """The small network of CIFAR-10 on made-up images, what comes before FiLM computed once.

    Example:
        >>> small_network(Effort(quick=True), 32).dim
        128
    """
    data = images(effort.of(1_000, 20))
    task = SupervisedTask(
        adapt(small_convnet(), FiLM(dim=128, layers=("fc1", "fc2")), example=data.inputs[:2]),
        loss=cross_entropy,
        metric=mcr(),
        train=data,
        search=images(effort.of(100, 20), seed=1),
        batch_size=effort.of(batch_size, 4),
    )
    task.prepare()
    return task


class _Work:
    def __init__(self, task: SupervisedTask, *, tasks: int, steps: int) -> None:
        self.task, self.tasks, self.steps = task, tasks, steps
        self.rule, self.value = MlpRule(), value_network(task.dim)
        self.unroll = Unroll(task, self.rule, self.value, lr=0.02, metric_every=5)

    def batched(self) -> None:
        self._unrolled(self.tasks)

    def looped(self) -> None:
        for _ in range(self.tasks):
            self._unrolled(1)

    def _unrolled(self, tasks: int) -> None:
        draw = stream(0, "unrolled")
        noise = 0.03 * torch.randn(tasks, self.rule.size, generator=draw)
        weights = noisy_pairs(self.rule.initial(draw), noise)
        drawn = self.task.batches(tasks, draw)
        batches = [next(drawn) for _ in range(self.steps + 1)]
        path = self.unroll.forward(weights, torch.zeros(2 * tasks, self.task.dim), batches)
        self.unroll.gradients(weights, path, batches, self._objective)

    def _objective(self, losses: torch.Tensor, phi: torch.Tensor) -> torch.Tensor:
        return optimizer_objective(losses, self.value(phi.flatten(0, 1)).view(phi.shape[:2]))
