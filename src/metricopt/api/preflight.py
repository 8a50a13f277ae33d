"""What is handed to `optimize`, checked before the metric is asked anything: a mistake costs one sentence, no query."""

import numbers
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn

from metricopt.adapters import Adapter
from metricopt.adapters.device import on_model
from metricopt.adapters.freezing import placement
from metricopt.core.clock import now, since
from metricopt.core.errors import AdapterError, BudgetError, DataError, FileFormatError, MetricError
from metricopt.core.registry import one_of
from metricopt.core.tree import Tree, described, row_count
from metricopt.data.dataset import Batch, Data
from metricopt.metrics.constraint import Constraint
from metricopt.metrics.metric import Metric
from metricopt.paper.preset import Preset
from metricopt.search import Recipe
from metricopt.task.supervised import SupervisedTask

_FEW = 16  # rows that tell how slow a network is
_SLOW = 1.0  # seconds: if its loss of a mini-batch takes longer, that of few rows has to do


def check_plan(queries: Any, recipe: Any, max_failures: Any, *, preset: str = "default") -> None:
    """Raises unless the numbers of queries and of failures make sense and the recipe is one.

    Example:
        >>> check_plan(0, None, None)
        Traceback (most recent call last):
        ...
        metricopt.core.errors.BudgetError: queries is 0; expected a whole number, at least 1: grant the search some
    """
    one_of(preset, get_args(Preset), what="preset")
    if not _whole(queries) or queries < 1:
        raise BudgetError(f"queries is {queries!r}; expected a whole number, at least 1: grant the search some")
    if max_failures is not None and (not _whole(max_failures) or max_failures < 0):
        raise BudgetError(
            f"max_failures is {max_failures!r}; expected a whole number, at least 0: 0 stops at the first failed query"
        )
    if recipe is not None and not isinstance(recipe, Recipe):
        raise TypeError(f"recipe is {recipe!r}; expected a Recipe: pass metricopt.Recipe(...) with what shall differ")
    if recipe is not None and preset != "default":
        raise TypeError(
            f"a recipe was given with preset={preset!r}, which has settings of its own; expected one of the two: leave "
            f"out either"
        )


def check_workers(workers: Any, executor: Any) -> None:
    """Raises unless it is a number of workers that an executor, if there is one, can be given.

    Example:
        >>> check_workers(0, None)
        Traceback (most recent call last):
        ...
        metricopt.core.errors.BudgetError: workers is 0; expected a whole number, at least 1
    """
    if not _whole(workers) or workers < 1:
        raise BudgetError(f"workers is {workers!r}; expected a whole number, at least 1")
    if executor is not None and workers == 1:
        raise BudgetError(
            "an executor was given with workers=1; expected how many calls it may be given at the same time: "
            "pass workers=8 or so"
        )


def check_resume(run_dir: Path | str | None, *, resume: bool) -> None:
    """Raises if there is no folder to resume from.

    Example:
        >>> check_resume(None, resume=True)
        Traceback (most recent call last):
        ...
        metricopt.core.errors.FileFormatError: resume is True without a run_dir; expected the folder of a run: pass ...
    """
    if resume and run_dir is None:
        raise FileFormatError("resume is True without a run_dir; expected the folder of a run: pass it as run_dir")


def check_confidence(confidence: Any) -> None:
    """Raises unless a confidence is a share of at least a half.

    Example:
        >>> check_confidence(90)
        Traceback (most recent call last):
        ...
        metricopt.core.errors.BudgetError: confidence is 90; expected a number from 0.5 to below 1, such as 0.9
    """
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0.5 <= confidence < 1:
        raise BudgetError(f"confidence is {confidence!r}; expected a number from 0.5 to below 1, such as 0.9")


def check_parts(net: Any, adapter: Any, loss: Any, keep: Any) -> None:
    """Raises unless net, adapter, loss and constraints are what they are called, and the net has weights.

    Example:
        >>> check_parts(nn.Linear(2, 1, device="meta"), None, nn.functional.cross_entropy, ())
        Traceback (most recent call last):
        ...
        metricopt.core.errors.AdapterError: the network is on the meta device, where it has shapes but ...
    """
    if not isinstance(net, nn.Module):
        raise AdapterError(f"net is a {type(net).__name__}; expected a torch.nn.Module: pass the pre-trained network")
    placement(net)
    if torch.get_default_device().type != "cpu":
        raise AdapterError(
            f"torch's default device is {torch.get_default_device()}; expected cpu, where phi lives whatever the "
            f"network's device: call torch.set_default_device('cpu')"
        )
    if adapter is not None and not isinstance(adapter, Adapter):
        raise AdapterError(f"adapter is {adapter!r}; expected an Adapter: pass one such as metricopt.FiLM(dim=32)")
    if loss is not None and not callable(loss):
        raise TypeError(f"loss is {loss!r}; expected a function loss(outputs, targets): metricopt.losses has some")
    if not isinstance(keep, tuple | list) or not all(isinstance(each, Constraint) for each in keep):
        raise MetricError(
            f"keep is {keep!r}; expected a list of constraints: pass [metricopt.Constraint('accuracy', at_least=0.9)]"
        )


def check_loss(task: SupervisedTask) -> None:
    """Raises unless the loss of the original model on some training rows is a finite number.

    Example:
        >>> from metricopt.adapters import OutputAffine, adapt
        >>> from metricopt.data.dataset import Examples
        >>> from metricopt.metrics import mcr
        >>> data = Examples(torch.zeros(40, 3), torch.arange(40) % 2)
        >>> model = adapt(nn.Linear(3, 2), OutputAffine())
        >>> check_loss(SupervisedTask(model, loss=lambda outputs, _: outputs, metric=mcr(), train=data, search=data))
        Traceback (most recent call last):
        ...
        metricopt.core.errors.DataError: the loss of 40 training rows is shape (40, 2); expected a tensor with one ...
    """
    rows = _spread_rows(task)
    few = rows[:: -(-len(rows) // _FEW)]
    began = now()
    first = _output(task, few)
    if since(began) * len(rows) / len(few) > _SLOW:
        try:
            return _check_loss_of(task, *first)
        except DataError:
            pass  # a loss may need a class that few rows do not have
    return _check_loss_of(task, *_output(task, rows))


def _output(task: SupervisedTask, rows: Tensor) -> tuple[Tree, Batch]:
    """What the original gives for some training rows, and these."""
    batch = task.train.batch(rows, seed=0)
    batch = Batch(*(on_model(task.model, part) for part in batch))
    with torch.no_grad():
        return task.loss_rule.output(task.model, torch.zeros(task.dim), batch), batch


def _check_loss_of(task: SupervisedTask, output: Tree, batch: Batch) -> None:
    count = row_count(batch.inputs)
    if task.model.reader is not None and task.loss_rule.call is None:
        _check_finite(task.model.read(output))
    value = _loss_of(task, output, batch)
    if not isinstance(value, Tensor) or value.numel() != 1 or not bool(torch.isfinite(value)):
        found = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) and value.numel() != 1 else repr(value)
        raise DataError(
            f"the loss of {count} training rows is {found}; expected a tensor with one finite number: "
            f"average over the rows and check the targets"
        )


def check_queries(metric: Metric, sets: Mapping[str, Data]) -> None:
    """Raises unless a metric about queries can be asked about the sets it will be asked about.

    Example:
        >>> from metricopt.data.dataset import Examples
        >>> from metricopt.metrics import recall_at_k
        >>> check_queries(recall_at_k(), {"val": Examples(torch.zeros(3, 2), torch.arange(3))})
        Traceback (most recent call last):
        ...
        metricopt.core.errors.MetricError: metric 'recall@1' on val: none of 3 queries has an item of ...
    """
    for name in (name for name in sets if name != "train"):
        targets, groups = sets[name].truth
        if isinstance(targets, Tensor):
            metric.resampling.check(targets, groups, name=metric.name, data=name)


def check_embeddings(task: SupervisedTask) -> None:
    """Raises if the original network gives zero embeddings on the metric's data, which no cosine is defined for."""
    if task.metric.on != "embeddings" or task.model.reader is None or not task.metric.resampling.by_class:
        return
    outputs = task.search_outputs(torch.zeros(1, task.dim))[0]
    _check_finite(outputs, "validation")
    zero = ~outputs.reshape(len(outputs), -1).any(1)
    if bool(zero.any()):
        raise DataError(
            f"the network gives zero embeddings for {int(zero.sum())} of {len(outputs)} validation rows; expected "
            f"directions: check its last layer and the scale of the inputs"
        )


def _spread_rows(task: SupervisedTask) -> Tensor:
    """As many rows as a mini-batch has, evenly spread: the first ones of sorted data would be of one class."""
    step = -(-len(task.train) // task.batch_size)
    return torch.arange(0, len(task.train), step)


def _check_finite(outputs: Tensor, rows: str = "training") -> None:
    broken = ~(outputs.reshape(len(outputs), -1).amax(1) < torch.inf)  # as for metrics: -inf rules a class out
    if bool(broken.any()):
        raise DataError(
            f"the network gives NaN or infinite outputs for {int(broken.sum())} of {len(outputs)} {rows} rows; "
            f"expected finite ones: check its weights and the scale of the inputs"
        )


def _loss_of(task: SupervisedTask, output: Tree, batch: Batch) -> Any:
    try:
        return task.loss_rule.value(output, batch)
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"the loss raised {type(error).__name__} for outputs {described(output)} and targets "
            f"{described(batch.targets)}: {error}; expected one number: pass targets or a loss that fit"
        ) from error


def _whole(number: Any) -> bool:
    return isinstance(number, numbers.Integral) and not isinstance(number, bool)
