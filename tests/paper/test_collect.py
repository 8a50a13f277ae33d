from functools import partial

import pytest
import torch

from metricopt.core.errors import BudgetError, ObservationError
from metricopt.paper.collect import OptimizerFactory, collect, default_observations, observed_steps
from metricopt.run.ledger import QueryLedger
from metricopt.task.base import Task
from metricopt.task.oracle import Oracle

SGD = partial(torch.optim.SGD, lr=0.1)


class Bowl(Task):
    """Loss |phi - batch|^2 with a batch of one random vector a member; the cost is a known function of phi."""

    dim = 3

    def __init__(self):
        self.seen = []

    def batches(self, population, generator):
        while True:
            batch = torch.randn(population, self.dim, generator=generator)
            self.seen.append(batch)
            yield batch

    def loss(self, phi, batch):
        return (phi - batch).square().sum(-1)

    def costs(self, phi):
        return torch.sigmoid(phi.sum(-1))

    def noise_guess(self):
        return 0.125


def collected(oracle, *, tasks=4, steps=12, observations=5, seed=0, optimizer: OptimizerFactory = SGD, **options):
    start = torch.randn(tasks, oracle.dim, generator=torch.Generator().manual_seed(9))
    generator = torch.Generator().manual_seed(seed)
    return start, collect(
        oracle,
        steps=steps,
        observations=observations,
        optimizer=optimizer,
        start=start,
        generator=generator,
        **options,
    )


def test_paths_are_gradient_descent_on_each_members_own_batches():
    task = Bowl()
    start, paths = collected(Oracle(task))
    for member in range(4):
        phi = start[member].tolist()
        for step in range(12):
            batch = task.seen[step][member].tolist()
            assert paths.phi[member, step].tolist() == pytest.approx(phi, abs=1e-5)
            loss = sum((p - b) ** 2 for p, b in zip(phi, batch, strict=True))
            assert float(paths.loss[member, step]) == pytest.approx(loss, rel=1e-4)
            phi = [p - 0.1 * 2 * (p - b) for p, b in zip(phi, batch, strict=True)]


def test_costs_are_those_of_the_observed_steps_and_each_is_one_query():
    task = Bowl()
    oracle = Oracle(task)
    _, paths = collected(oracle)
    torch.testing.assert_close(paths.costs, task.costs(paths.observed_phi).double())
    assert oracle.ledger.used == 4 * 5 == len(oracle.ledger.queries)
    assert {query.stage for query in oracle.ledger.queries} == {"trajectories"}
    assert paths.noise_std == 0.125


@pytest.mark.parametrize("spacing", ["even", "random"])
@pytest.mark.parametrize(("steps", "observations"), [(2, 2), (12, 2), (12, 5), (12, 12)])
def test_each_task_is_observed_at_distinct_steps_from_the_first_to_the_last(steps, observations, spacing):
    _, paths = collected(Oracle(Bowl()), tasks=20, steps=steps, observations=observations, spacing=spacing)
    torch.testing.assert_close(paths.costs, Bowl().costs(paths.observed_phi).double())
    for row in paths.observed_steps.tolist():
        assert len(row) == observations and row == sorted(set(row))
        assert row[0] == 0 and row[-1] == steps - 1


@pytest.mark.parametrize(("steps", "observations"), [(2, 2), (7, 4), (7, 7), (50, 5), (1000, 50), (1000, 999)])
def test_steps_from_the_first_to_the_last_are_observed_at_equal_distances(steps, observations):
    first, observed = observed_steps(2, steps, observations)
    assert torch.equal(first, observed)
    assert observed[0] == 0
    assert observed[-1] == steps - 1
    gaps = observed.diff()
    assert len(observed) == observations
    assert 1 <= gaps.min() <= gaps.max() <= gaps.min() + 1


def test_random_steps_between_the_ends_are_observed_equally_often():
    observed = observed_steps(2000, 7, 4, draw=torch.Generator().manual_seed(0))
    often = torch.bincount(observed.flatten(), minlength=7)
    assert often[0] == often[6] == 2000
    assert all(abs(count - 800) < 4 * (2000 * 0.4 * 0.6) ** 0.5 for count in often[1:6].tolist())
    assert bool((observed.diff() > 0).all())


def test_the_same_seed_gives_the_same_paths_bit_for_bit():
    (_, a), (_, b), (_, c) = (collected(Oracle(Bowl()), seed=seed) for seed in (0, 0, 1))
    assert all(torch.equal(getattr(a, name), getattr(b, name)) for name in ("phi", "loss", "observed_steps", "costs"))
    assert not torch.equal(a.phi, c.phi)


def test_the_start_is_left_alone_and_paths_carry_no_graph():
    start, paths = collected(Oracle(Bowl()), optimizer=partial(torch.optim.Adam, lr=0.5))
    assert torch.equal(paths.phi[:, 0], start) and not paths.phi.requires_grad and not paths.loss.requires_grad


@pytest.mark.parametrize("observations", [0, 1, 13])
def test_an_impossible_number_of_observations_is_refused_before_anything_is_spent(observations):
    oracle = Oracle(Bowl())
    with pytest.raises(ObservationError, match=f"{observations} metric observations in 12 steps; expected between 2"):
        collected(oracle, observations=observations)
    assert oracle.ledger.used == 0


def test_the_budget_is_kept():
    oracle = Oracle(Bowl(), QueryLedger(budget=19))
    with pytest.raises(BudgetError, match="asks for 20 metric queries, but 19 of 19 are left"):
        collected(oracle)
    assert oracle.ledger.used == 0


@pytest.mark.parametrize(("steps", "observations"), [(20, 5), (50, 5), (100, 5), (200, 10), (500, 25)])
def test_by_default_five_percent_of_the_steps_are_observed_but_at_least_five(steps, observations):
    assert default_observations(steps) == observations
