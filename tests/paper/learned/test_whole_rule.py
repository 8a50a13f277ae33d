import math
import warnings

import pytest
import torch

from metricopt.core.errors import FileFormatError, FlatValueWarning, UnknownNameError
from metricopt.core.seeding import stream
from metricopt.paper.learned.meta_training import meta_train
from metricopt.paper.learned.optimizer import LearnedOptimizer
from metricopt.paper.learned.settings import MetaTraining
from metricopt.paper.learned.signals import Signals
from metricopt.paper.learned.weights import LearnedWeights, load_optimizer, save_optimizer
from metricopt.paper.learned.whole_rule import WholeRule
from metricopt.paper.training import Training
from metricopt.task.oracle import Oracle
from metricopt.task.quadratic import QuadraticTask

FEATURES = ("gradient", "average", "phi", "loss", "metric")


def unit(vector: list[float]) -> list[float]:
    size = math.sqrt(sum(x * x for x in vector) / len(vector))
    return [x / size for x in vector]


def test_an_update_is_that_of_plain_loops_over_layers():
    rule = WholeRule(dim=3, features=FEATURES, hidden=(4,))
    draw = stream(0, "signals")
    weights = torch.randn(1, rule.size, generator=draw, dtype=torch.float64)
    phi, gradient = (torch.randn(1, 3, generator=draw, dtype=torch.float64) for _ in range(2))
    one = torch.ones(1, dtype=torch.float64)
    update, _ = rule.update(weights, Signals(phi, gradient, 2 * one, one, 0 * phi), rule.start(phi))
    size = math.sqrt(1 + sum(x * x for x in phi[0].tolist()) / 3)
    # At the first step loss and metric are their own references, and the average points along the gradient.
    inputs = [*unit(gradient[0].tolist()) * 2, *(x / size for x in phi[0].tolist()), 0.0, 0.0]
    numbers = iter(weights[0].tolist())
    for layer, (a, b) in enumerate(((11, 4), (4, 4))):
        matrix = [[next(numbers) for _ in range(b)] for _ in range(a + 1)]
        inputs = [sum(v * row[j] for v, row in zip([*inputs, 1.0], matrix, strict=True)) for j in range(b)]
        inputs = [max(v, 0.0) for v in inputs] if layer == 0 else inputs
    step = math.exp(min(max(inputs[3], -4.0), 4.0))
    expected = [step * (u - g) for u, g in zip(inputs[:3], unit(gradient[0].tolist()), strict=True)]
    torch.testing.assert_close(update[0], torch.tensor(expected, dtype=torch.float64))


def test_training_starts_from_a_step_against_the_average_gradient():
    rule = WholeRule(dim=4)
    weights = rule.initial(stream(0)).expand(2, -1)
    phi, gradient = torch.zeros(2, 4), torch.randn(2, 4, generator=stream(1))
    ones = torch.ones(2)
    update, _ = rule.update(weights, Signals(phi, gradient, ones, ones, phi), rule.start(phi))
    torch.testing.assert_close(update, -gradient / gradient.square().mean(-1, keepdim=True).sqrt())


def test_it_learns_where_the_metric_is_better_although_the_value_function_is_dropped():
    task, steps = QuadraticTask(dim=4), 20
    settings = MetaTraining(
        rule=WholeRule(dim=4, hidden=(16,), lr=0.05), iterations=20, tasks=6, steps=steps, meta_lr=0.03, std=0.01,
        start_std=1.0, warm_up=2, metric_every=5, value=Training(steps=40, members=2),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatValueWarning)
        trained = meta_train(Oracle(task), settings)
    ends = []
    for weights in (trained.learned, LearnedWeights(settings.rule, settings.rule.initial(stream(0)))):
        phi = torch.nn.Parameter(torch.zeros(20, 4))
        optimizer = LearnedOptimizer([phi], weights, population=True)
        batches = task.batches(20, stream(1, "new"))
        optimizer.observe(metric=task.costs(phi.detach()))
        for _ in range(steps):
            optimizer.zero_grad()
            loss = task.loss(phi, next(batches))
            loss.sum().backward()
            optimizer.observe(loss=loss)
            optimizer.step()
        ends.append(task.costs(phi.detach()).mean().item())
    assert ends[0] < 0.9 * ends[1], ends  # a step along the loss ends at the loss's optimum


def test_it_is_saved_and_read_again(tmp_path):
    rule = WholeRule(dim=3)
    save_optimizer(LearnedWeights(rule, rule.initial(stream(0))), tmp_path)
    assert load_optimizer(tmp_path).rule == rule


def test_parameters_of_another_size_are_refused_in_one_sentence():
    rule = WholeRule(dim=3)
    with pytest.raises(
        FileFormatError, match=r"trained for 3 coordinates .* given 5; expected parameters of that size"
    ):
        LearnedOptimizer([torch.nn.Parameter(torch.zeros(5))], LearnedWeights(rule, rule.initial(stream(0))))


def test_what_cannot_be_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match="dim is 0"):
        WholeRule(dim=0)
    with pytest.raises(ValueError, match="expected an 'average'"):
        WholeRule(features=("gradient",))
    with pytest.raises(UnknownNameError, match="feature is 'gradeint'"):
        WholeRule(features=("gradeint", "average"))
