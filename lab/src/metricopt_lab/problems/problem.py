"""A problem: data in four parts, a pre-trained network, the adapter to search with, and the metric to improve."""

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor, nn

from metricopt.adapters import AdaptedModel, Adapter, adapt
from metricopt.adapters.graph.cache import PrefixCache
from metricopt.core.seeding import stream
from metricopt.data.dataset import Examples
from metricopt.data.sampling import Sampling
from metricopt.losses import Loss
from metricopt.metrics import Metric
from metricopt.run.ledger import QueryLedger
from metricopt.task.oracle import Oracle
from metricopt.task.supervised import SupervisedTask

Part = Literal["search", "accept", "test"]

_ROWS_AT_ONCE = 400_000


# Field by field it would compare tensors, whose truth is ambiguous.
@dataclass(frozen=True, eq=False)
class Problem:
    """Data in four parts, a pre-trained network, the adapter to search with, and the metric to improve.

    Attributes:
        name: What it is called in tables.
        net: The pre-trained network, never changed.
        adapter: Description of the adapter.
        loss: `loss(outputs, targets)` of pre-training and finetuning.
        metric: What to improve.
        train: What the network was trained on.
        search: What the metric may be queried on.
        accept: What decides whether a result is kept; never queried.
        test: What results are reported on; neither queried nor used for any decision.
        sampling: How mini-batches of `train` are drawn.
        batch_size: Rows a mini-batch.
        notes: Where the data came from, how they were split, and how the network was trained.
        seed: Of split, training and adapter.

    Example:
        >>> from metricopt.adapters import OutputAffine
        >>> from metricopt.losses import cross_entropy
        >>> from metricopt.metrics import mcr
        >>> data = Examples(torch.eye(2).repeat(4, 1), torch.tensor([1, 0]).repeat(4))
        >>> problem = Problem("toy", nn.Linear(2, 2), OutputAffine(), cross_entropy, mcr(), train=data, search=data,
        ...                   accept=data, test=data, sampling="plain", batch_size=4, notes="made up", seed=0)
        >>> oracle = problem.oracle(queries=5)
        >>> oracle.dim, oracle.ledger.remaining, problem.costs(torch.zeros(3, 4), "test").shape
        (4, 5, torch.Size([3]))
    """

    name: str
    net: nn.Module
    adapter: Adapter
    loss: Loss
    metric: Metric
    train: Examples
    search: Examples
    accept: Examples
    test: Examples
    sampling: Sampling
    batch_size: int
    notes: str
    seed: int

    def oracle(
        self,
        *,
        queries: int | None,
        labels_visible: bool = False,
        metric: Metric | None = None,
        loss: Loss | None = None,
    ) -> Oracle:
        """Who answers about this problem's task, with a fresh ledger that grants so many queries; None for no limit."""
        task = self.task(labels_visible=labels_visible, metric=metric, loss=loss)
        return Oracle(task, QueryLedger(budget=queries))

    def task(
        self,
        *,
        labels_visible: bool = False,
        metric: Metric | None = None,
        loss: Loss | None = None,
    ) -> SupervisedTask:
        """The problem as a task; tasks of a problem share the adapted network and what is cached of it.

        Args:
            labels_visible: Whether the labels of the search data may be used for more than the metric.
            metric: Another metric than the problem's own.
            loss: Another loss than the problem's own.
        """
        return SupervisedTask(
            self.model,
            loss=self.loss if loss is None else loss,
            metric=self.metric if metric is None else metric,
            train=self.train,
            search=self.search,
            batch_size=self.batch_size,
            sampling=self.sampling,
            labels_visible=labels_visible,
            cache=self._cache,
        )

    def outputs(self, phi: Tensor, part: Part) -> Tensor:
        """Outputs for vectors (population, dim) on a part of the data, (population, n, ...), in the host's memory."""
        return self._cache.all_outputs(phi, self.part(part), at_once=_ROWS_AT_ONCE)

    def keep(self, part: Part) -> None:
        """Keep what no phi can change of a part of the data, where many vectors will be judged on it."""
        self._cache.fill(self.part(part))

    def part(self, name: Part) -> Examples:
        """A part of the data by its name."""
        return {"search": self.search, "accept": self.accept, "test": self.test}[name]

    def costs(self, phi: Tensor, part: Part, *, metric: Metric | None = None) -> Tensor:
        """Costs of vectors (population, dim) on a part of the data, for judging a finished search: no ledger counts it.

        NaN where the metric fails. Not for metrics computed on the model itself.
        """
        data = self.part(part)
        metric = self.metric if metric is None else metric
        parts = []
        for some in phi.split(max(1, _ROWS_AT_ONCE // len(data))):
            values = metric.values(self.outputs(some, part), data.targets, data.groups, failures="nan")
            parts.append(metric.cost(values))
        return torch.cat(parts)

    def standard_error(self, part: Part = "test", *, resamples: int = 200) -> float:
        """Bootstrap standard error of the pre-trained network's cost on a part of the data."""
        data = self.part(part)
        outputs = self.outputs(torch.zeros(1, self.model.dim), part)[0]
        generator, costs = stream(self.seed, "standard error"), []
        for _ in range(resamples):
            rows = torch.randint(len(data), (len(data),), generator=generator)
            chosen = data.rows(rows)
            costs.append(self.metric.cost(self.metric.value(outputs[rows], chosen.targets, chosen.groups)))
        return float(torch.tensor(costs, dtype=torch.float64).std())

    @cached_property
    def model(self) -> AdaptedModel:
        """The network with its adapter, shared by all tasks of the problem."""
        return adapt(copy.deepcopy(self.net), self.adapter, seed=self.seed, example=self.train.inputs[:8])

    @cached_property
    def _cache(self) -> PrefixCache:
        cache = PrefixCache(self.model, probe=self.train.inputs)
        # At once: the last bits of a task must not depend on what earlier tasks of the problem made worth keeping.
        cache.fill(self.train)
        cache.fill(self.search)
        return cache
