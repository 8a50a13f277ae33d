"""What finetunes copies of a network, if it can: which weights learn, and what phi makes of those that were found."""

import copy
from dataclasses import replace

import torch
from torch import Tensor, nn

from metricopt.adapters import AdaptedModel, LayerAffine, OutputAffine, WeightDirections
from metricopt.adapters.detector import is_detector, scores_of
from metricopt.api.problem import Problem
from metricopt.core.errors import AdapterError, MetricError
from metricopt.crossfit import CrossFit
from metricopt.crossfit.draws import folds_of
from metricopt.crossfit.learner import Learner, Tuned, learning
from metricopt.data.dataset import Data
from metricopt.metrics import Metric
from metricopt.metrics.within_parts import within_parts
from metricopt.task.out_of_fold import OutOfFoldTask

_MOST_MEMORY = 4 * 2**30


def learner_of(problem: Problem, tuned: Tuned, settings: CrossFit, *, insist: bool) -> Learner | None:
    """What finetunes copies of the network: in train mode or, where it cannot, in eval mode; None if neither works.

    Args:
        problem: What to improve; its rows of `val` are learnt from.
        tuned: Which weights learn.
        settings: Of the finetuning.
        insist: Whether to raise instead of giving None.
    """
    if problem.metric.on == "embeddings":
        metric = within_folds(problem.metric, problem.val, settings.folds, seed=problem.seed)
        obstacle = _few_classes(metric, problem.val, settings.folds)
        if obstacle and insist:
            raise MetricError(f"tune is {tuned!r}, but {obstacle}; expected more of them, or tune='adapter'")
        if obstacle:
            return None
        problem = replace(problem, metric=metric)
    settings, tuned = _bearable(problem.net, tuned, _fitting(problem, settings))
    task = problem.task(OutOfFoldTask, weighted(problem, settings, tuned))
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


def _fitting(problem: Problem, settings: CrossFit) -> CrossFit:
    """The settings without kinds of finetuning that make no sense for the network, its metric and its data."""
    classes, on = problem.train.has_classes and problem.val.has_classes, problem.metric.on
    settings = settings.fitting(classes=classes and on != "embeddings", ranks=classes and on in ("scores", "logits"))
    return settings.of_detector() if is_detector(problem.net) else settings


def _bearable(net: nn.Module, tuned: Tuned, settings: CrossFit) -> tuple[CrossFit, Tuned]:
    """All kinds and weights, unless copies of the weights for every fold and kind would take too much memory."""
    size = sum(tensor.nbytes for tensor in (*net.parameters(), *net.buffers()))
    if size * len(settings.kinds) * (settings.folds + 1) * 2 <= _MOST_MEMORY:
        return settings, tuned
    fewer = settings.of_all_weights
    bearable = size * len(fewer) * (settings.folds + 1) * 2 <= _MOST_MEMORY
    return replace(settings, kinds=fewer), tuned if bearable else "light"


def weighted(problem: Problem, settings: CrossFit, tuned: Tuned) -> AdaptedModel:
    """A copy of the network whose phi scales finetuned changes of its weights, one a kind, and shifts outputs.

    Of a detector, class scores; where outputs cannot be shifted, or are embeddings, which gain nothing, it does not.

    Example:
        >>> from metricopt.data.dataset import Examples
        >>> from metricopt.metrics import mcr
        >>> rows = Examples(torch.zeros(6, 4), torch.arange(6) % 3)
        >>> problem = Problem(nn.Linear(4, 3), mcr(), train=rows, val=rows, example=rows.inputs[:2])
        >>> weighted(problem, CrossFit(), "weights").dim
        11
    """
    net = copy.deepcopy(problem.net)
    trainable = {name: parameter.requires_grad for name, parameter in net.named_parameters()}
    learnt = set(learning(net, tuned, trainable))
    learnt |= _statistics(net, learnt)
    names = None if learnt >= {name for name, _ in net.named_parameters()} else tuple(sorted(learnt))
    directions = WeightDirections(len(settings.kinds), names)
    if is_detector(net):
        return problem.adapt(net, directions + LayerAffine(layers=scores_of(net)))
    if problem.metric.on == "embeddings":
        return problem.adapt(net, directions)
    try:
        return problem.adapt(net, directions + OutputAffine(scale=False))
    except AdapterError:
        return problem.adapt(net, directions)


def _statistics(net: nn.Module, learnt: set[str]) -> set[str]:
    """Names of the buffers of modules in which something learns: elsewhere they stay as they are."""
    owners = {name: name.rpartition(".")[0] for name, _ in net.named_buffers()}
    return {name for name, owner in owners.items() if any(not owner or each.startswith(f"{owner}.") for each in learnt)}
