"""Which adapter a network gets where none is named, and the task of searching its phi."""

import copy

from torch import nn

from metricopt.adapters import AdaptedModel, Adapter, DynamicBias, EmbeddingAffine, FiLM, OutputAffine, adapt
from metricopt.adapters.detector import is_detector
from metricopt.api.detectors import adapter_for
from metricopt.api.problem import Problem
from metricopt.core.errors import AdapterError
from metricopt.core.reading import Read
from metricopt.core.tree import Call, Tree
from metricopt.core.tree import call as default_call
from metricopt.paper.preset import Preset, paper_adapter
from metricopt.task.supervised import SupervisedTask


def adapted_task(problem: Problem, adapter: Adapter | None, *, preset: Preset) -> SupervisedTask:
    """The task of searching the phi of an adapter, of the given one or of one that suits."""
    model = adapted(
        problem.net,
        adapter,
        example=problem.example,
        seed=problem.seed,
        call=problem.call,
        read=problem.read,
        embeds=problem.metric.on == "embeddings",
        preset=preset,
    )
    return problem.task(SupervisedTask, model)


def adapted(
    net: nn.Module,
    adapter: Adapter | None,
    *,
    example: Tree,
    seed: int,
    call: Call = default_call,
    read: Read = None,
    embeds: bool = False,
    preset: Preset = "default",
) -> AdaptedModel:
    """A copy of `net` with an adapter; without one named, FiLM where it finds a layer, else a dynamic bias.

    Both with an affine of the outputs, where the network's output has a tensor that can be told to be that; of a
    network that `embeds`, of the last layer, so that what normalises embeddings comes after it. Of a detector FiLM
    acts before its heads, and the affine is of its class scores and box corrections. The paper's presets have the
    paper's own adapter, where the network can have that.

    Example:
        >>> import torch
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
        >>> model = adapted(net, None, example=torch.zeros(2, 4), seed=0)
        >>> model.layers, model.dim, model.net is net
        (('1',), 38, False)
    """
    net = copy.deepcopy(net)
    refusals = []
    for choice in _choices(net, embeds, preset) if adapter is None else (adapter,):
        try:
            return adapt(net, choice, seed=seed, example=example, call=call, read=read)
        except AdapterError as error:
            refusals.append(error)
    raise refusals[-1]  # of the plainest choice: what refuses it refuses the others too


def _choices(net: nn.Module, embeds: bool, preset: Preset) -> tuple[Adapter, ...]:
    """Adapters that suit a network, the first that it can have being the best."""
    if is_detector(net):
        return (adapter_for(net),)
    film, bias, affine = FiLM(dim=32), DynamicBias(dim=16), EmbeddingAffine() if embeds else OutputAffine()
    of_paper = () if preset == "default" else (paper_adapter(net),)
    return (*of_paper, film + affine, bias + affine, film, bias)
