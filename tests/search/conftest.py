"""A small network with FiLM and an output affine, for what the search knows of predictions."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from metricopt.adapters import FiLM, OutputAffine, adapt
from metricopt.data.dataset import Examples
from metricopt.metrics import Metric
from metricopt.task.supervised import SupervisedTask


@pytest.fixture
def asked():
    """The metric's calls: looking at predictions must not make any."""
    return []


@pytest.fixture
def small_task(asked):
    def error_rate(truth, labels):
        asked.append(len(truth))
        return float((truth != labels).mean())

    def made(rows):
        draw = torch.Generator().manual_seed(0)
        inputs = torch.randn(rows, 4, generator=draw)
        data = Examples(inputs, inputs[:, :3].argmax(1))
        net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
        for parameter in net.parameters():
            parameter.data = 0.5 * torch.randn(parameter.shape, generator=draw)
        model = adapt(net, FiLM(dim=5) + OutputAffine(), example=inputs[:2])
        return SupervisedTask(
            model, loss=cross_entropy, metric=Metric(error_rate, on="labels", goal="min"), train=data, search=data
        )

    return made
