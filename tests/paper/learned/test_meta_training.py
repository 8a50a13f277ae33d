import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import final

import pytest
import torch
from torch import Tensor
from torch.optim import Optimizer

from metricopt.core.errors import FileFormatError, FlatValueWarning, ObservationError, UnrollError
from metricopt.core.seeding import stream
from metricopt.paper.learned import meta_training
from metricopt.paper.learned.equation_s1_rule import LOSS_ONLY, WITH_VALUE, MlpRule
from metricopt.paper.learned.meta_training import MetaTrained, meta_train
from metricopt.paper.learned.optimizer import LearnedOptimizer
from metricopt.paper.learned.settings import Iteration, MetaTraining
from metricopt.paper.training import Training
from metricopt.task.base import Task
from metricopt.task.oracle import Oracle
from metricopt.task.quadratic import QuadraticTask

QUICK = MetaTraining(iterations=5, tasks=4, steps=8, warm_up=1, metric_every=4, value=Training(steps=20, members=2))


class Bowls(Task):
    """Each member of a population has a bowl of its own, drawn with its mini-batches: curvature, optimum, noise."""

    def __init__(self, dim: int = 6, noise: float = 0.3) -> None:
        self.dim, self.noise = dim, noise

    def batches(self, population: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        size = (population, self.dim)
        curvature = 0.3 + 1.7 * torch.rand(size, generator=generator)
        optimum = torch.randn(size, generator=generator)
        while True:
            yield curvature, optimum + self.noise * torch.randn(size, generator=generator)

    def loss(self, phi: Tensor, batch: tuple[Tensor, Tensor]) -> Tensor:
        return 0.5 * (batch[0] * (phi - batch[1]).square()).sum(-1)

    def costs(self, phi: Tensor) -> Tensor:
        return phi.new_full((len(phi),), 0.5)


def end(task: Task, optimizer: Callable[[list[torch.nn.Parameter]], Optimizer], *, steps: int, seed: int) -> float:
    """Mean loss without noise at the end of paths from zero, over 100 tasks drawn from `seed`."""
    batches = task.batches(100, stream(seed, "unseen"))
    phi = torch.nn.Parameter(torch.zeros(100, task.dim))
    stepper = optimizer([phi])
    for _ in range(steps):
        stepper.zero_grad()
        loss = task.loss(phi, next(batches))
        loss.sum().backward()
        if isinstance(stepper, LearnedOptimizer):
            stepper.observe(loss=loss)
        stepper.step()
    exact = [next(batches) for _ in range(200)]  # the noise of 200 mini-batches is nearly none
    middle = exact[0][0], torch.stack([each[1] for each in exact]).mean(0)
    return task.loss(phi.detach(), middle).mean().item()


def test_on_unseen_quadratic_tasks_it_beats_tuned_sgd_and_adam_at_equal_steps():
    task, steps = Bowls(), 30
    settings = MetaTraining(
        rule=MlpRule(features=LOSS_ONLY, decays=(0.5, 0.9), hidden=(16,), lr=0.1),
        iterations=45, tasks=8, steps=steps, start_std=0.3, weight=0.0, meta_lr=0.02,
    )  # fmt: skip
    trained = meta_train(Oracle(task), settings, seed=1)
    learned = end(task, partial(LearnedOptimizer, weights=trained.learned, population=True), steps=steps, seed=7)
    rates = [0.01 * 2**k for k in range(8)]
    rivals = {
        name: min(end(task, partial(base, lr=rate), steps=steps, seed=7) for rate in rates)
        for name, base in (("sgd", torch.optim.SGD), ("adam", torch.optim.Adam))
    }
    assert learned < 0.9 * min(rivals.values()), (learned, rivals)
    assert trained.queries == 0


def test_the_estimators_alone_lower_the_objective_too():
    for estimator in ("es", "reparametrised"):
        settings = MetaTraining(
            rule=MlpRule(features=LOSS_ONLY, hidden=(8,), lr=0.1),
            iterations=25, tasks=8, steps=10, weight=0.0, meta_lr=0.03, estimator=estimator,
        )  # fmt: skip
        history = meta_train(Oracle(Bowls()), settings).history
        first, last = (sum(each.objective for each in some) / 5 for some in (history[:5], history[-5:]))
        assert last < first - 0.02


def same(one: MetaTrained, other: MetaTrained) -> bool:
    values = [list(each.value.state_dict().values()) for each in (one, other) if each.value is not None]
    alike = all(torch.equal(a, b) for a, b in zip(*values, strict=True)) if values else True
    return alike and torch.equal(one.learned.weights, other.learned.weights) and str(one.history) == str(other.history)


@pytest.mark.parametrize("weight", [0.0, 50.0])
def test_stopped_and_resumed_it_ends_with_the_same_bits(tmp_path, weight):
    settings = replace(QUICK, weight=weight)
    straight = meta_train(Oracle(QuadraticTask(dim=3)), settings, seed=3)

    def stop(now: Iteration) -> None:
        if now.number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        meta_train(Oracle(QuadraticTask(dim=3)), settings, seed=3, folder=tmp_path, watch=stop)
    resumed = meta_train(Oracle(QuadraticTask(dim=3)), settings, seed=3, folder=tmp_path)
    assert same(straight, resumed)
    assert same(straight, meta_train(Oracle(QuadraticTask(dim=3)), settings, seed=3, folder=tmp_path))


def test_a_folder_of_another_training_is_refused(tmp_path):
    quick = replace(QUICK, iterations=1, weight=0.0)
    meta_train(Oracle(QuadraticTask(dim=3)), quick, folder=tmp_path)
    with pytest.raises(FileFormatError, match="another settings"):
        meta_train(Oracle(QuadraticTask(dim=3)), replace(quick, std=0.2), folder=tmp_path)
    with pytest.raises(FileFormatError, match="another seed"):
        meta_train(Oracle(QuadraticTask(dim=3)), quick, seed=1, folder=tmp_path)


def test_every_metric_query_is_counted():
    oracle = Oracle(QuadraticTask(dim=3))
    trained = meta_train(oracle, QUICK)
    assert trained.queries == oracle.ledger.used == QUICK.queries == 5 * 4 * 5


def test_the_value_function_is_learnt_on_the_way():
    settings = replace(QUICK, iterations=5, value=Training(steps=60, members=2))
    trained = meta_train(Oracle(QuadraticTask(dim=3)), settings)
    assert math.isnan(trained.history[0].correlation)
    assert trained.history[-1].correlation > 0.7
    assert trained.value is not None


@pytest.mark.filterwarnings("ignore::metricopt.core.errors.FlatValueWarning")  # it is, at first
def test_reptile_as_in_the_paper_learns_it_too():
    training = Training(scheme="reptile", norm="none", inner_steps=20)
    trained = meta_train(Oracle(QuadraticTask(dim=3)), replace(QUICK, iterations=6, tasks=8, value=training))
    assert trained.value is not None and trained.value.members == 1
    assert max(each.correlation for each in trained.history[3:]) > 0.5


def test_an_optimizer_is_not_trained_on_a_flat_value_function():
    with pytest.warns(FlatValueWarning, match="the optimizer is not trained on it") as caught:
        trained = meta_train(Oracle(Bowls(dim=3)), QUICK)  # whose metric is the same everywhere
    assert len(caught) == 1
    assert not any(each.updated for each in trained.history)
    assert torch.equal(trained.learned.weights, QUICK.rule.initial(stream(0, "meta", "weights")))


@final
class Cliff(Task):
    """A bowl whose loss is no number beyond a line that some paths cross."""

    dim = 3

    def batches(self, population: int, generator: torch.Generator) -> Iterator[Tensor]:
        while True:
            yield 0.1 * torch.randn(population, self.dim, generator=generator)

    def loss(self, phi: Tensor, batch: Tensor) -> Tensor:
        bowl = (phi - 1 + batch).square().sum(-1)
        return torch.where(phi[:, 0] > 1.4, torch.nan, bowl)

    def costs(self, phi: Tensor) -> Tensor:
        return phi.new_full((len(phi),), 0.5)


def test_steps_that_the_value_function_was_wrong_about_are_taken_back(monkeypatch):
    agreed = [0.9, 0.9, -0.5, -0.5, 0.9]  # rank correlations, from the iteration after the first on

    def health(value, phi, costs):
        return replace(measured(value, phi, costs), rank_correlation=agreed.pop(0), gradient_size=1.0)

    measured = meta_training.health
    monkeypatch.setattr(meta_training, "health", health)
    with pytest.warns(FlatValueWarning):
        history = meta_train(Oracle(QuadraticTask(dim=3)), replace(QUICK, iterations=6)).history
    assert [each.updated for each in history] == [False, True, True, False, False, True]
    assert [each.taken_back for each in history] == [False, False, False, True, False, False]


def test_unrolls_that_explode_are_counted_and_left_out():
    settings = MetaTraining(
        rule=MlpRule(features=LOSS_ONLY, hidden=(8,), lr=0.1), iterations=4, tasks=16, steps=20, weight=0.0
    )
    trained = meta_train(Oracle(Cliff()), settings)
    assert 0 < sum(each.exploded for each in trained.history) < 4 * 32
    assert all(math.isfinite(each.objective) for each in trained.history if each.updated)
    assert bool(trained.learned.weights.isfinite().all())


@final
class Broken(Task):
    dim = 2

    def batches(self, population: int, generator: torch.Generator) -> Iterator[Tensor]:  # noqa: ARG002
        while True:
            yield torch.zeros(population, 1)

    def loss(self, phi: Tensor, batch: Tensor) -> Tensor:  # noqa: ARG002
        return phi.sum(-1) * torch.nan

    def costs(self, phi: Tensor) -> Tensor:  # noqa: ARG002
        raise AssertionError("a metric was asked about a loss that is no number")


def test_a_loss_that_is_no_number_is_told_before_the_first_query():
    with pytest.raises(UnrollError, match="the loss is nan before the first step of every task"):
        meta_train(Oracle(Broken()), QUICK)


def test_a_loss_that_stops_being_a_number_loses_nothing_of_the_iterations_before(tmp_path):
    settings = MetaTraining(
        rule=MlpRule(features=LOSS_ONLY, hidden=(8,), lr=0.1), iterations=4, tasks=4, steps=5, weight=0.0
    )
    straight = meta_train(Oracle(Bowls()), settings)

    class Spoilt(Bowls):
        done = 0

        def loss(self, phi: Tensor, batch: tuple[Tensor, Tensor]) -> Tensor:
            return super().loss(phi, batch) * (torch.nan if self.done == 2 else 1.0)

    spoilt = Spoilt()

    def count(now: Iteration) -> None:
        spoilt.done = now.number + 1

    with pytest.raises(UnrollError, match="the loss is nan before the first step of every task"):
        meta_train(Oracle(spoilt), settings, folder=tmp_path, watch=count)
    mended = meta_train(Oracle(Bowls()), settings, folder=tmp_path)
    assert same(straight, mended)


def test_steps_beyond_memory_are_told_before_the_first_query():
    with pytest.raises(UnrollError, match=r"100000 steps of 4 tasks take .* MiB; expected at most 1"):
        meta_train(Oracle(QuadraticTask(dim=3)), replace(QUICK, steps=100_000, memory=2**20))


def test_settings_that_cannot_be_are_refused_in_one_sentence():
    for wrong in ({"tasks": 1}, {"std": 0.0}, {"weight": -1.0}, {"iterations": 0}, {"estimator": "both?"}):
        with pytest.raises((ValueError, LookupError), match="expected"):
            replace(QUICK, **wrong)
    with pytest.raises(ObservationError, match="between 2 and 8"):
        replace(QUICK, observations=9)


def test_a_value_function_that_is_kept_leads_to_a_better_metric_than_the_loss():
    task, steps = QuadraticTask(dim=4), 20
    settings = MetaTraining(
        rule=MlpRule(features=WITH_VALUE, hidden=(16,), lr=0.05),
        iterations=10, tasks=6, steps=steps, meta_lr=0.03, start_std=1.0, warm_up=2, metric_every=5,
        value=Training(steps=40, members=2),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatValueWarning)
        trained = meta_train(Oracle(task), settings)
    phi = torch.nn.Parameter(torch.zeros(20, 4))
    optimizer = LearnedOptimizer([phi], trained.learned, population=True, value=trained.value)
    batches = task.batches(20, stream(5))
    for _ in range(steps):
        optimizer.zero_grad()
        loss = task.loss(phi, next(batches))
        loss.sum().backward()
        optimizer.observe(loss=loss, metric=task.costs(phi.detach()))
        optimizer.step()
    at_loss_optimum = task.costs(task.loss_optimum[None]).item()
    assert task.costs(phi.detach()).mean().item() < at_loss_optimum
