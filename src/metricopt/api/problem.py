"""What is to be improved, before anything modulates it: a network, a metric, a loss, and data that are apart."""

from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

from torch import nn

from metricopt.adapters import AdaptedModel, Adapter, adapt
from metricopt.adapters.detector import detect, is_detector
from metricopt.adapters.freezing import placement
from metricopt.api.detectors import check_boxes
from metricopt.api.preflight import check_embeddings, check_loss, check_queries
from metricopt.core.reading import Read
from metricopt.core.tree import Call, Tree
from metricopt.core.tree import call as default_call
from metricopt.data.dataset import Data
from metricopt.data.lazy import Collate
from metricopt.data.sampling import PerClass, Sampling
from metricopt.data.splits import cut, three_sets
from metricopt.metrics import Metric
from metricopt.task.base import Loss
from metricopt.task.supervised import SupervisedTask

_Task = TypeVar("_Task", bound=SupervisedTask)


@dataclass(frozen=True, eq=False)
class Problem:
    """A network, a metric, a loss and three sets of data.

    Attributes:
        net: The pre-trained network, which stays as it is.
        metric: What to improve.
        train: Data the loss is taken on.
        val: Data the metric is asked about.
        example: Inputs that show how the network is called.
        holdout: Data that accept the result, if any were set aside.
        loss: As for `optimize`.
        batch_size: Rows a mini-batch.
        sampling: How mini-batches are drawn.
        labels_visible: Whether the labels of `val` may be learnt from.
        seed: Of the adapter's matrices and of all cuts of data.
        call: How the network is called.
        read: Which tensor of its output is looked at.

    Example:
        >>> import torch
        >>> from metricopt.data.dataset import Examples
        >>> from metricopt.metrics import mcr
        >>> rows = Examples(torch.zeros(50, 2), torch.arange(50) % 2)
        >>> problem = Problem(nn.Linear(2, 1), mcr(), train=rows, val=rows, example=rows.inputs[:2])
        >>> {name: len(part) for name, part in problem.with_holdout().sets.items()}
        {'train': 50, 'val': 30, 'holdout': 20}
    """

    net: nn.Module
    metric: Metric
    train: Data
    val: Data
    example: Tree
    holdout: Data | None = None
    loss: Loss | None = None
    batch_size: int = 256
    sampling: Sampling = "plain"
    labels_visible: bool = False
    seed: int = 0
    call: Call = default_call
    read: Read = None

    @property
    def sets(self) -> dict[str, Data]:
        """The data by name."""
        held_out = {} if self.holdout is None else {"holdout": self.holdout}
        return {"train": self.train, "val": self.val, **held_out}

    def with_holdout(self) -> Self:
        """The same with part of `val` set aside, unless something was before."""
        if self.holdout is not None:
            return self
        val, holdout = cut(self.val, self.seed, by_class=self.metric.resampling.by_class)
        return replace(self, val=val, holdout=holdout)

    def adapt(self, net: nn.Module, adapter: Adapter) -> AdaptedModel:
        """`net`, a copy of the network, with an adapter."""
        return adapt(net, adapter, seed=self.seed, example=self.example, call=self.call, read=self.read)

    def task(self, kind: type[_Task], model: AdaptedModel) -> _Task:
        """The task of an adapted model; raises where its loss is no number or its embeddings are zero."""
        task = kind(
            model,
            loss=self.loss,
            metric=self.metric,
            train=self.train,
            search=self.val,
            batch_size=self.batch_size,
            sampling=self.sampling,
            labels_visible=self.labels_visible,
        )
        check_loss(task)
        check_embeddings(task)
        return task


def problem_of(
    net: nn.Module,
    metric: Metric,
    *,
    train: Any,
    val: Any,
    holdout: Any,
    whole: bool,
    loss: Loss | None,
    batch_size: int,
    sampling: Sampling | None,
    labels_visible: bool,
    seed: int,
    call: Call,
    collate: Collate | None,
    read: Read,
) -> Problem:
    """The problem that data of any form make, checked; part of `val` is set aside unless it is wanted `whole`."""
    by_class = metric.resampling.by_class
    sets = three_sets(
        train,
        val,
        holdout,
        seed=seed,
        hidden=metric.hidden,
        dtype=placement(net)[1],
        collate=collate,
        whole=whole,
        by_class=by_class,
    )
    if is_detector(net) and call is default_call:
        check_boxes(net, sets)
        call = detect
    check_queries(metric, sets)
    if sampling is None:
        sampling = PerClass() if by_class else "plain"
    return Problem(
        net,
        metric,
        **sets,
        example=sets["train"].inputs_at(slice(0, 2)),
        loss=loss,
        batch_size=batch_size,
        sampling=sampling,
        labels_visible=labels_visible,
        seed=seed,
        call=call,
        read=read,
    )
