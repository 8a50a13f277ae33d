"""Two ways to a better model: finetuning the weights, cross-fitted, and searching the phi of an adapter."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from torch import nn

from metricopt.adapters import AdaptedModel, OutputAffine, WeightDirections, adapt
from metricopt.adapters.freezing import coarse, spread_out
from metricopt.api.preflight import check_loss
from metricopt.core.errors import AdapterError, MetricError
from metricopt.core.reading import Read
from metricopt.core.registry import one_of
from metricopt.core.tree import Call, Tree
from metricopt.crossfit import EFFORTS, CrossFit
from metricopt.crossfit.learner import Learner, Tuned, learning
from metricopt.data.dataset import Data
from metricopt.metrics import Constraint, Metric
from metricopt.task.out_of_fold import OutOfFoldTask

_MOST_MEMORY = 4 * 2**30

Tune = Literal["weights", "light", "adapter"]
"""All weights; the last layer, normalisation and biases; or the phi of an adapter, with the weights as they are."""

Effort = Literal["quick", "default"]


def settings_of(effort: Effort | CrossFit, batch_size: int) -> CrossFit:
    """Settings of the finetuning by name, or as given.

    Example:
        >>> settings_of("quick", 64).batch
        64
    """
    if isinstance(effort, CrossFit):
        return effort
    one_of(effort, get_args(Effort), what="effort")
    return replace(EFFORTS[effort], batch=batch_size)


def way_of(
    tune: Tune | None,
    *,
    metric: Metric,
    keep: Sequence[Constraint],
    learns: bool,
    adapter: object,
    search: bool,
    net: nn.Module | None = None,
) -> Tune:
    """Which way is taken: the one asked for, or the weights wherever labels may be learnt from.

    Args:
        tune: What the user asked for, if anything.
        metric: What to improve.
        keep: The constraints.
        learns: Whether the labels of the validation rows may be learnt from.
        adapter: The adapter given, if one was.
        search: Whether settings of the adapter's search were given.
        net: The network; one of half precision or on several devices keeps its weights.

    Example:
        >>> from metricopt.metrics import as_metric
        >>> settings = {"metric": as_metric("f1"), "keep": (), "adapter": None, "search": False}
        >>> way_of(None, learns=True, **settings), way_of(None, learns=False, **settings)
        ('weights', 'adapter')
    """
    obstacle = _obstacle(
        [metric, *(each.metric for each in keep)], learns=learns, adapter=adapter, search=search
    ) or _fixed(net)
    if tune is None:
        return "adapter" if obstacle else "weights"
    one_of(tune, get_args(Tune), what="tune")
    if tune != "adapter" and obstacle:
        raise MetricError(f"tune is {tune!r}, but {obstacle}; expected tune='adapter', or leave it out")
    return tune


def _fixed(net: nn.Module | None) -> str:
    """Why the weights of a network stay as they are; empty if they can learn."""
    half = None if net is None else coarse(net)
    if half is not None:
        return f"the network is of {half}, too coarse for small steps of its weights"
    return "the network is spread over several devices" if net is not None and spread_out(net) else ""


def _obstacle(metrics: Sequence[Metric], *, learns: bool, adapter: object, search: bool) -> str:
    """Why weights cannot be finetuned and judged out of fold; empty if they can."""
    if adapter is not None:
        return "an adapter was given, which leaves the weights as they are"
    if search:
        return "settings of the adapter's search were given"
    if not learns:
        return "the labels of the validation rows may not be learnt from"
    for metric in metrics:
        if metric.hidden:
            return f"metric {metric.name!r} keeps the truth to itself, so there are no labels to learn from"
        if metric.on == "embeddings":
            return f"metric {metric.name!r} compares embeddings, and those of different folds' networks do not compare"
        if metric.on == "model":
            return f"metric {metric.name!r} is asked about one model, and out of fold there are several"
    return ""


def learner_of(
    net: nn.Module,
    tuned: Tuned,
    settings: CrossFit,
    val: Data,
    how: dict[str, Any],
    about: dict[str, Any],
    *,
    insist: bool,
) -> Learner | None:
    """What finetunes copies of `net`: in train mode or, where the network cannot, in eval mode; None if neither works.

    Args:
        net: The pre-trained network.
        tuned: Which weights learn.
        settings: Of the finetuning.
        val: Rows to learn from.
        how: How the network is called and read: `example`, `seed`, `call`, `read`.
        about: The rest of what a task is made of.
        insist: Whether to raise instead of giving None.
    """
    classes = about["train"].has_classes and val.has_classes
    settings = settings.fitting(classes=classes, ranks=classes and about["metric"].on in ("scores", "logits"))
    settings, tuned = _bearable(net, tuned, settings)
    task = OutOfFoldTask(weighted(net, settings, tuned, **how), search=val, **about)
    check_loss(task)
    reasons = []
    for train_mode in (True, False):
        learner = Learner(task, settings, tuned, train_mode=train_mode)
        obstacle = learner.obstacle()
        if not obstacle:
            return learner
        reasons.append(obstacle)
    if insist:
        raise AdapterError(f"tune is {tuned!r}, but {reasons[0]}; expected a network that learns, or tune='adapter'")
    return None


def _bearable(net: nn.Module, tuned: Tuned, settings: CrossFit) -> tuple[CrossFit, Tuned]:
    """All kinds and weights, unless copies of the weights for every fold and kind would take too much memory."""
    size = sum(tensor.nbytes for tensor in (*net.parameters(), *net.buffers()))
    if size * len(settings.kinds) * (settings.folds + 1) * 2 <= _MOST_MEMORY:
        return settings, tuned
    fewer = settings.of_all_weights
    bearable = size * len(fewer) * (settings.folds + 1) * 2 <= _MOST_MEMORY
    return replace(settings, kinds=fewer), tuned if bearable else "light"


def weighted(
    net: nn.Module, settings: CrossFit, tuned: Tuned, *, example: Tree, seed: int, call: Call, read: Read
) -> AdaptedModel:
    """A copy of `net` whose phi scales finetuned changes of its weights, one a kind, and shifts outputs if it can.

    Example:
        >>> import torch
        >>> from metricopt.core.tree import call
        >>> net, example = nn.Linear(4, 3), torch.zeros(2, 4)
        >>> weighted(net, CrossFit(), "weights", example=example, seed=0, call=call, read=None).dim
        11
    """
    net = copy.deepcopy(net)
    trainable = {name: parameter.requires_grad for name, parameter in net.named_parameters()}
    learnt = {*learning(net, tuned, trainable), *(name for name, _ in net.named_buffers())}
    names = None if learnt >= {name for name, _ in net.named_parameters()} else tuple(sorted(learnt))
    directions = WeightDirections(len(settings.kinds), names)
    try:
        return adapt(net, directions + OutputAffine(scale=False), seed=seed, example=example, call=call, read=read)
    except AdapterError:
        return adapt(net, directions, seed=seed, example=example, call=call, read=read)
