"""A small problem whose inputs have moved since training."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from metricopt.data.dataset import Examples
from metricopt.losses import cross_entropy
from metricopt.metrics import Metric
from metricopt_lab.problems.zoo import UserProblem


def rows(count: int, seed: int, shift: float, classes: int = 3) -> Examples:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 6, generator=draw)
    noise = 0.4 * torch.randn(count, 3, generator=draw)
    target = (x[:, :3] + noise).argmax(1)
    return Examples(x * (1 + shift) + shift, target if classes == 3 else (target == 0).long())


def moved_problem(metric: Metric, *, classes: int = 3) -> UserProblem:
    """A network trained at one place and used at another, where its labels are to be learnt from."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        last = [nn.Linear(16, 3)] if classes == 3 else [nn.Linear(16, 1), nn.Flatten(0)]
        net = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), *last)
    train = rows(400, 0, 0.0, classes)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        cross_entropy(net(train.inputs), train.targets).backward()
        optimizer.step()
    val, test = rows(300, 1, 2.0, classes), rows(3000, 2, 2.0, classes)
    return UserProblem("toy", net.eval(), cross_entropy, metric, train, val, test, labels_visible=True, seed=0)


@pytest.fixture(scope="session")
def moved_rows() -> Callable[..., Examples]:
    return rows


@pytest.fixture(scope="session")
def make_problem() -> Callable[..., UserProblem]:
    return moved_problem
