"""Cross-fitted finetuning on a small problem whose inputs have moved since training."""

import pytest
import torch
from torch import nn

from metricopt.data.dataset import Examples
from metricopt.losses import cross_entropy
from metricopt.metrics import macro_f1
from metricopt_lab.crossfit.acceptance import verdict
from metricopt_lab.crossfit.crossfit import Recipe, crossfit
from metricopt_lab.crossfit.outcome import loaded
from metricopt_lab.crossfit.population import Schedule
from metricopt_lab.problems.zoo import UserProblem as Problem

CALLS = 60


def rows(count: int, seed: int, shift: float) -> Examples:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 6, generator=draw)
    noise = 0.4 * torch.randn(count, 3, generator=draw)
    return Examples(x * (1 + shift) + shift, (x[:, :3] + noise).argmax(1))


@pytest.fixture(scope="module")
def problem() -> Problem:
    torch.manual_seed(0)
    train = rows(400, 0, 0.0)
    net = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        cross_entropy(net(train.inputs), train.targets).backward()
        optimizer.step()
    val, test = rows(300, 1, 1.0), rows(3000, 2, 1.0)
    return Problem("toy", net.eval(), cross_entropy, macro_f1(), train, val, test, labels_visible=True, seed=0)


def test_it_is_better_on_test_rows_within_its_calls_and_says_so(problem):
    before = [tensor.clone() for tensor in problem.net.state_dict().values()]
    outcome, choice = crossfit(problem, calls=CALLS, seed=0, recipe=Recipe(schedule=Schedule(epochs=8)))
    assert outcome.calls <= CALLS
    assert outcome.test_cost(problem) < problem.test_cost(problem.net) - 0.02
    assert float(verdict(problem, choice, seed=0)["chance"]) > 0.9
    assert type(loaded(problem.net, outcome.state)) is nn.Sequential
    assert all(torch.equal(a, b) for a, b in zip(before, problem.net.state_dict().values(), strict=True))


def test_the_seed_decides_all(problem):
    recipe = Recipe(schedule=Schedule(epochs=2))
    one, again = (crossfit(problem, calls=30, seed=3, recipe=recipe)[0] for _ in range(2))
    assert torch.equal(one.bias, again.bias)
    assert all(torch.equal(one.state[name], again.state[name]) for name in one.state)
