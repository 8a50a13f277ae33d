"""Two ways to a better model: finetuning the weights, cross-fitted, and searching the phi of an adapter."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from metricopt.adapters import AdaptedModel, LayerAffine, OutputAffine, WeightDirections, adapt
from metricopt.adapters.detector import SCORES, is_detector
from metricopt.adapters.freezing import coarse, packed, spread_out
from metricopt.api.preflight import check_embeddings, check_loss
from metricopt.core.errors import AdapterError, MetricError
from metricopt.core.reading import Read
from metricopt.core.registry import one_of
from metricopt.core.tree import Call, Tree
from metricopt.crossfit import EFFORTS, CrossFit
from metricopt.crossfit.draws import folds_of
from metricopt.crossfit.learner import Learner, Tuned, learning
from metricopt.data.dataset import Data
from metricopt.metrics import Constraint, Metric
from metricopt.metrics.within_parts import within_parts
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
        net: The network; one of half precision, quantised or on several devices keeps its weights.

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
    layer = "" if net is None else packed(net)
    if layer:
        return f"the weights of layer {layer} are quantised or sharded, and stay as they are"
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
        if metric.on == "embeddings" and not metric.resampling.by_class:
            return (
                f"metric {metric.name!r} compares embeddings, those of different folds' networks do not compare, and "
                f"it does not say by resampling=ByQuery(...) that folds may be galleries of their own"
            )
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
    metric, embeds = about["metric"], about["metric"].on == "embeddings"
    if embeds:
        metric = within_folds(metric, val, settings.folds, seed=how["seed"])
        obstacle = _few_classes(metric, val, settings.folds)
        if obstacle and insist:
            raise MetricError(f"tune is {tuned!r}, but {obstacle}; expected more of them, or tune='adapter'")
        if obstacle:
            return None
        about = {**about, "metric": metric}
    classes = about["train"].has_classes and val.has_classes
    settings = settings.fitting(classes=classes and not embeds, ranks=classes and metric.on in ("scores", "logits"))
    settings, tuned = _bearable(net, tuned, settings.of_detector() if is_detector(net) else settings)
    task = OutOfFoldTask(weighted(net, settings, tuned, biases=not embeds, **how), search=val, **about)
    check_loss(task)
    check_embeddings(task)
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


def within_folds(metric: Metric, val: Data, folds: int, *, seed: int) -> Metric:
    """A metric about unseen classes with a gallery for each fold of the classes; any other as it is.

    Example:
        >>> import torch
        >>> from metricopt.data.dataset import Examples
        >>> from metricopt.metrics import recall_at_k
        >>> val = Examples(torch.zeros(8, 2), torch.tensor([0, 0, 1, 1, 2, 2, 3, 3]))
        >>> within_folds(recall_at_k(), val, 2, seed=0)
        Metric('recall@1', on='embeddings', goal='max')
    """
    if not metric.resampling.by_class:
        return metric
    assert val.classes is not None
    return within_parts(metric, val.classes, folds_of(val, folds, seed=seed, by_class=True))


def _few_classes(metric: Metric, val: Data, folds: int) -> str:
    """Why folds of the classes cannot be galleries of their own; empty if they can."""
    targets, groups = val.truth
    assert val.classes is not None and isinstance(targets, Tensor)
    count = len(torch.unique(val.classes))
    if count < 2 * folds:
        return f"val has {count} classes, fewer than two for each of {folds} folds"
    try:
        metric.resampling.check(targets, groups, name=metric.name, data="a fold of val")
    except MetricError as error:
        return str(error)
    return ""


def _bearable(net: nn.Module, tuned: Tuned, settings: CrossFit) -> tuple[CrossFit, Tuned]:
    """All kinds and weights, unless copies of the weights for every fold and kind would take too much memory."""
    size = sum(tensor.nbytes for tensor in (*net.parameters(), *net.buffers()))
    if size * len(settings.kinds) * (settings.folds + 1) * 2 <= _MOST_MEMORY:
        return settings, tuned
    fewer = settings.of_all_weights
    bearable = size * len(fewer) * (settings.folds + 1) * 2 <= _MOST_MEMORY
    return replace(settings, kinds=fewer), tuned if bearable else "light"


def weighted(
    net: nn.Module,
    settings: CrossFit,
    tuned: Tuned,
    *,
    example: Tree,
    seed: int,
    call: Call,
    read: Read,
    biases: bool = True,
) -> AdaptedModel:
    """A copy of `net` whose phi scales finetuned changes of its weights, one a kind, and shifts outputs if it can.

    Of a detector, class scores; embeddings have nothing to gain from `biases`.

    Example:
        >>> import torch
        >>> from metricopt.core.tree import call
        >>> net, example = nn.Linear(4, 3), torch.zeros(2, 4)
        >>> weighted(net, CrossFit(), "weights", example=example, seed=0, call=call, read=None).dim
        11
    """
    net = copy.deepcopy(net)
    trainable = {name: parameter.requires_grad for name, parameter in net.named_parameters()}
    learnt = set(learning(net, tuned, trainable))
    learnt |= _statistics(net, learnt)
    names = None if learnt >= {name for name, _ in net.named_parameters()} else tuple(sorted(learnt))
    directions = WeightDirections(len(settings.kinds), names)
    if is_detector(net):
        scores = LayerAffine(layers=SCORES)
        return adapt(net, directions + scores, seed=seed, example=example, call=call, read=read)
    if not biases:
        return adapt(net, directions, seed=seed, example=example, call=call, read=read)
    try:
        return adapt(net, directions + OutputAffine(scale=False), seed=seed, example=example, call=call, read=read)
    except AdapterError:
        return adapt(net, directions, seed=seed, example=example, call=call, read=read)


def _statistics(net: nn.Module, learnt: set[str]) -> set[str]:
    """Names of the buffers of modules in which something learns: elsewhere they stay as they are."""
    owners = {name: name.rpartition(".")[0] for name, _ in net.named_buffers()}
    return {name for name, owner in owners.items() if any(not owner or each.startswith(f"{owner}.") for each in learnt)}
