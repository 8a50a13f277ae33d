import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from metricopt.paper.learned.equation_s2_objective import loss_objective, metric_objective, optimizer_objective

NUMBERS = st.lists(st.floats(0.01, 1.0), min_size=2, max_size=12)


@given(NUMBERS)
@settings(deadline=None)
def test_the_metric_term_is_that_of_a_plain_loop(costs):
    steps = len(costs) - 1
    terms = []
    for t in range(1, steps + 1):
        best = min(costs[:t])
        terms.append(math.log1p(math.exp(steps / 2 * (costs[t] - best) / costs[t])))
    found = metric_objective(torch.tensor(costs, dtype=torch.float64)).item()
    assert math.isclose(found, sum(terms) / steps, rel_tol=1e-9)


@given(NUMBERS)
@settings(deadline=None)
def test_the_loss_term_is_the_mean_log_loss_less_the_first(losses):
    logs = [math.log(loss + 1e-4) for loss in losses]
    expected = sum(log - logs[0] for log in logs[1:]) / (len(losses) - 1)
    assert math.isclose(loss_objective(torch.tensor(losses, dtype=torch.float64)).item(), expected, abs_tol=1e-9)


def test_the_derivative_is_that_of_finite_differences():
    draw = torch.Generator().manual_seed(0)
    losses, costs = (0.2 + torch.rand(3, 8, generator=draw, dtype=torch.float64) for _ in range(2))
    leaves = losses.requires_grad_(), costs.requires_grad_()
    assert torch.autograd.gradcheck(lambda loss, cost: optimizer_objective(loss, cost, weight=50.0), leaves)


def test_costs_of_nothing_and_below_give_finite_numbers():
    assert bool(metric_objective(torch.tensor([0.1, 0.0, -0.2])).isfinite())


def test_an_even_fall_is_worth_more_than_the_same_fall_at_once():
    even, at_once = 0.3 * 0.99 ** torch.arange(41.0), torch.full((41,), 0.3 * 0.99**40)
    at_once[0] = 0.3
    still = torch.full((41,), 0.3)
    assert metric_objective(even) < metric_objective(at_once) < metric_objective(still)
