"""What the speed benchmark computes on: networks and data of the sizes of the paper's, filled with random numbers."""

import sys
from collections.abc import Callable

import torch
from torch import Tensor
from torch.optim import Optimizer

from metricopt.adapters import AdaptedModel, Adapter, DynamicBias, OutputAffine, adapt
from metricopt.core.seeding import stream
from metricopt.data.dataset import Data, Examples
from metricopt.losses import cross_entropy
from metricopt.metrics import Metric, mcr
from metricopt.paper.guided import MetricGuided
from metricopt.paper.network import ValueNetwork
from metricopt.task.finetuning import Step, finetuning
from metricopt.task.supervised import SupervisedTask
from metricopt_lab.networks import TabularMLP
from metricopt_lab.networks.resnet import resnet32

A9A_FEATURES = 123
A9A_TRAIN, A9A_SEARCH = 34_189, 4_884
DYNAMIC_BIAS = DynamicBias(dim=16) + OutputAffine()


def table(rows: int, *, seed: int = 0) -> Examples:
    """Rows of 0 and 1 with as many columns as A9A, and two classes.

    Example:
        >>> table(5).inputs.shape
        torch.Size([5, 123])
    """
    draw = stream(seed, "table", rows)
    inputs = (torch.rand(rows, A9A_FEATURES, generator=draw) < 0.11).float()
    targets = (inputs @ torch.randn(A9A_FEATURES, generator=draw) > 0).long()
    targets[:2] = torch.tensor([0, 1])
    return Examples(inputs, targets)


def images(rows: int, *, seed: int = 0) -> Examples:
    """Images of 32 x 32 random pixels and ten classes.

    Example:
        >>> images(10).inputs.shape
        torch.Size([10, 3, 32, 32])
    """
    return Examples(torch.randn(rows, 3, 32, 32, generator=stream(seed, "images")), torch.arange(rows) % 10)


def tabular_task(
    *,
    adapter: Adapter = DYNAMIC_BIAS,
    batch_size: int = 256,
    train: int = A9A_TRAIN,
    search: int = A9A_SEARCH,
    metric: Metric | None = None,
    cache: int = 2**30,
) -> SupervisedTask:
    """The paper's MLP for A9A with an untrained network.

    Example:
        >>> tabular_task(train=50, search=20).dim
        18
    """
    data = table(train)
    model = adapt(TabularMLP(A9A_FEATURES), adapter, example=data.inputs[:2])
    return SupervisedTask(
        model,
        loss=cross_entropy,
        metric=mcr() if metric is None else metric,
        train=data,
        search=table(search, seed=1),
        batch_size=batch_size,
        cache=cache,
    )


def image_task(*, adapter: Adapter, rows: int, batch_size: int = 128, cache: int = 2**30) -> SupervisedTask:
    """ResNet-32 on random images.

    Example:
        >>> from metricopt.adapters import FiLM
        >>> image_task(adapter=FiLM(dim=8, layers="stage3.*"), rows=20).dim
        8
    """
    data = images(rows)
    return SupervisedTask(
        adapt(resnet32(), adapter, example=data.inputs[:2]),
        loss=cross_entropy,
        metric=mcr(),
        train=data,
        search=images(rows, seed=1),
        batch_size=batch_size,
        cache=cache,
    )


def value_network(dim: int) -> ValueNetwork:
    """The paper's value network, untrained.

    Example:
        >>> value_network(16).members
        1
    """
    return ValueNetwork(dim, generator=stream(0, "value")).eval().requires_grad_(False)


def own_loop(model: AdaptedModel, data: Data, *, batch_size: int, guided: bool) -> Callable[[], object]:
    """One finetuning step as a user would write it: torch's own modules, no cache, no population.

    Example:
        >>> task = tabular_task(train=50, search=20)
        >>> own_loop(task.model, task.train, batch_size=8, guided=True)()
    """
    assert isinstance(data, Examples)
    phi = model.phi
    optimizer: Optimizer = torch.optim.SGD([phi], lr=0.01)
    if guided:
        optimizer = MetricGuided(optimizer, value_network(model.dim))
    draw = stream(0, "own loop")

    def step() -> None:
        index = torch.randint(len(data), (batch_size,), generator=draw)
        optimizer.zero_grad()
        cross_entropy(model(data.inputs[index]), data.targets[index]).backward()
        optimizer.step()

    return step


def task_loop(task: SupervisedTask, *, guided: bool, population: int = 1) -> Callable[[], Step]:
    """One finetuning step of a population by the library.

    Example:
        >>> step = task_loop(tabular_task(train=50, search=20), guided=False)
        >>> step().loss.shape
        torch.Size([1])
    """

    def optimizer(parameters: list[torch.nn.Parameter]) -> Optimizer:
        sgd = torch.optim.SGD(parameters, lr=0.01)
        return MetricGuided(sgd, value_network(task.dim)) if guided else sgd

    task.prepare()
    start = torch.zeros(population, task.dim)
    batches = task.batches(population, stream(0, "task loop"))
    endless = finetuning(task, start, batches, steps=sys.maxsize, optimizer=optimizer)
    return lambda: next(endless)


def vectors(population: int, dim: int) -> Tensor:
    """Random phi near 0.

    Example:
        >>> vectors(3, 4).shape
        torch.Size([3, 4])
    """
    return 0.1 * torch.randn(population, dim, generator=stream(0, "vectors"))
