"""What all cells of a problem stand on: the problem, the original's cost, and what rivals share."""

from functools import cached_property
from typing import final

import torch
from torch import Tensor

from metricopt.adapters import AdaptedModel
from metricopt.api.adapted import adapted
from metricopt.data.dataset import Examples
from metricopt.run.ledger import QueryLedger
from metricopt.task.oracle import Oracle
from metricopt.task.supervised import SupervisedTask
from metricopt_lab.problems.zoo import UserProblem
from metricopt_lab.quality.sparing import SharedFits
from metricopt_lab.rivals.weights import Finetunings

_ROWS_AT_ONCE = 4096


@final
class Ground:
    """A problem of a seed.

    Attributes:
        problem: The problem.
        before: Cost of the pre-trained network on the test rows.
        finetunings: What the rivals that move the weights share.
        shared_fits: What the budgets of `optimize` share.
    """

    def __init__(self, problem: UserProblem) -> None:
        self.problem = problem
        self.before = problem.test_cost(problem.net)
        self.finetunings = Finetunings(problem)
        self.shared_fits = SharedFits()

    def oracle(self, queries: int) -> Oracle:
        """Who answers label-free rivals about all validation rows: phi is that of `optimize`, FiLM and biases."""
        return Oracle(self._task, QueryLedger(budget=queries))

    def test_costs(self, model: AdaptedModel, phi: Tensor) -> list[float]:
        """Costs of vectors (population, dim) on the test rows."""
        parts = self.problem.test.inputs.split(_ROWS_AT_ONCE)
        with torch.no_grad():
            outputs = torch.cat([model.outputs(phi, some).cpu() for some in parts], dim=1)
        return [self.problem.cost_of_test_outputs(each) for each in outputs]

    @cached_property
    def _task(self) -> SupervisedTask:
        problem = self.problem
        embeds = problem.metric.on == "embeddings"
        model = adapted(problem.net, None, example=problem.train.inputs[:2], seed=problem.seed, embeds=embeds)
        return SupervisedTask(model, loss=problem.loss, metric=problem.metric, train=problem.train, search=problem.val,
                              labels_visible=False)  # fmt: skip

    @property
    def model(self) -> AdaptedModel:
        """The network with the adapter of label-free rivals."""
        return self._task.model


def given(data: Examples) -> tuple[Tensor, ...]:
    """Rows as a user hands them in.

    Example:
        >>> len(given(Examples(torch.zeros(3, 2), torch.arange(3))))
        2
    """
    return (data.inputs, data.targets) if data.groups is None else (data.inputs, data.targets, data.groups)
