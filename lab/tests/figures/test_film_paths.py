"""Paths from phi = 0: where they start, what leads them, and how their rate is chosen."""

from functools import partial

import torch

from metricopt.paper.guided import MetricGuided
from metricopt.task.oracle import Oracle
from metricopt_lab.figures.film_paths import loss_led_path, tuned, value_led_path
from metricopt_lab.problems import QuadraticTask


def test_a_loss_led_path_is_plain_gradient_descent_from_zero():
    task = QuadraticTask(dim=3, noise=0.0)
    path = loss_led_path(task, partial(torch.optim.SGD, lr=0.1), steps=4, seed=0)
    phi, expected = torch.zeros(1, 3, requires_grad=True), [torch.zeros(3)]
    batch = next(task.batches(1, torch.Generator().manual_seed(0)))
    for _ in range(4):
        (gradient,) = torch.autograd.grad(task.loss(phi, batch).sum(), phi)
        phi = (phi - 0.1 * gradient).detach().requires_grad_()
        expected.append(phi.detach()[0])
    torch.testing.assert_close(path, torch.stack(expected))


def test_all_rates_see_the_same_mini_batches():
    task = QuadraticTask(dim=2, noise=0.5)
    first, second = (loss_led_path(task, partial(torch.optim.SGD, lr=lr), steps=1, seed=3)[1] for lr in (0.1, 0.2))
    torch.testing.assert_close(2 * first, second)


def test_a_value_led_path_goes_straight_down_the_value_function():
    goal = torch.tensor([3.0, -4.0])

    def optimizer(parameters):
        value = lambda points: (points - goal).square().sum(1)  # noqa: E731
        return MetricGuided(torch.optim.SGD(parameters, lr=1.0), value, combine="replace", estimator="exact")

    path = value_led_path(2, optimizer, steps=5)
    torch.testing.assert_close(path, torch.linspace(0, 1, 6)[:, None] * goal)  # steps of length 1


def test_the_rate_is_that_of_the_lowest_end_and_every_rate_costs_one_query():
    task = QuadraticTask(dim=2)
    ends = {0.1: task.optimum + 0.3, 0.2: task.optimum, 0.3: task.optimum - 0.1}
    oracle = Oracle(task)
    found = tuned(oracle, lambda rate: torch.stack([torch.zeros(2), ends[rate]]), tuple(ends))
    assert (found.rate, oracle.ledger.used) == (0.2, 3)
    assert found.path[-1].equal(task.optimum)
    assert found.tried == dict(zip(ends, task.costs(torch.stack(list(ends.values()))).tolist(), strict=True))


def test_a_path_that_leaves_the_numbers_is_never_chosen():
    task = QuadraticTask(dim=2)
    ends = {1.0: torch.full((2,), torch.nan), 2.0: torch.full((2,), 50.0)}
    assert tuned(Oracle(task), lambda rate: ends[rate][None], (2.0, 1.0)).rate == 2.0
