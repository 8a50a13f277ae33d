"""The quadratic task: closed forms of its loss, cost and directions."""

import math

import pytest
import torch

from metricopt.core.errors import BudgetError
from metricopt.core.seeding import stream
from metricopt.run.ledger import QueryLedger
from metricopt.task.oracle import Oracle
from metricopt.task.quadratic import distance_at
from metricopt_lab.problems import QuadraticTask


def test_the_cost_is_zero_at_the_optimum_and_grows_with_the_distance_alone():
    task = QuadraticTask(dim=5, scale=2.0)
    directions = torch.nn.functional.normalize(torch.randn(3, 5, generator=stream(0)), dim=1)
    assert task.costs(task.optimum[None]).item() == 0
    for distance in (0.5, 1.0, 4.0):
        expected = 1 - math.exp(-(distance**2) / 8)
        costs = task.costs(task.optimum + distance * directions)
        assert costs.tolist() == pytest.approx([expected] * 3, rel=1e-5)
        assert distance_at(expected, scale=2.0) == pytest.approx(distance)


def test_the_origin_is_farther_from_the_metrics_optimum_than_the_loss_optimum_for_any_seed():
    for seed in range(50):
        task = QuadraticTask(dim=6, seed=seed)
        at_origin, at_loss_optimum = task.costs(torch.stack([torch.zeros(6), task.loss_optimum]))
        assert 0 < at_loss_optimum < at_origin


def test_mini_batches_are_noise_around_one_loss_whose_gradient_vanishes_at_its_optimum():
    task = QuadraticTask(dim=4, noise=0.5)
    batches = task.batches(2000, stream(0, "batches"))
    phi = task.loss_optimum.expand(2000, 4).clone().requires_grad_()
    (gradient,) = torch.autograd.grad(task.loss(phi, next(batches)).sum(), phi)
    assert gradient.mean(0).abs().max() < 4 * 0.5 * 2 / math.sqrt(2000)
    assert (gradient / task.curvature).std() == pytest.approx(0.5, rel=0.05)


def test_directions_are_parts_of_the_expected_loss_gradient():
    task = QuadraticTask(dim=8)
    phi = torch.randn(8, generator=stream(1)).requires_grad_()
    (gradient,) = torch.autograd.grad(task.loss(phi[None], torch.zeros(1, 8)).sum(), phi)
    directions = task.probe().directions(phi.detach())
    assert torch.allclose(directions.sum(0), gradient)
    assert (directions.norm(dim=1) > 0).all()


def test_the_budget_holds():
    oracle = Oracle(QuadraticTask(dim=2), QueryLedger(budget=3))
    oracle.observe(torch.zeros(3, 2))
    with pytest.raises(BudgetError, match="asks for 1 metric queries, but 0 of 3 are left"):
        oracle.observe(torch.zeros(1, 2))
