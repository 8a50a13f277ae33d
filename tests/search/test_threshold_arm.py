import math

import pytest
import torch

from metricopt.search.archive import Archive
from metricopt.search.threshold_arm import ThresholdArm
from metricopt.task.base import Task
from metricopt.task.oracle import Oracle
from metricopt.task.probe import Probe


class Line(Task):
    """A cost along one shift: a valley, and noise that is the same whenever the same shift is asked about."""

    dim = 3

    def __init__(self, *, lowest, noise, seed=0, failing=(), width=1.0):
        self.lowest, self.failing = lowest, failing
        self._noise, self.width = noise, width
        self._waves = torch.randn(3, 40, generator=torch.Generator().manual_seed(seed))

    def batches(self, population, generator):
        raise NotImplementedError

    def loss(self, phi, batch):
        raise NotImplementedError

    def truth(self, shift):
        return 0.3 + 0.05 * ((shift - self.lowest) / self.width) ** 2

    def costs(self, phi):
        shift = phi[:, 2].double()
        a, b, c = self._waves
        rough = (a * torch.sin((20 + 40 * b.abs()) * shift[:, None] + 6 * c)).sum(1) / math.sqrt(20)
        costs = self.truth(shift) + self._noise * rough
        return torch.where(torch.tensor([round(float(s), 4) in self.failing for s in shift]), torch.nan, costs)

    def doubt_guess(self, phi, other):  # noqa: ARG002
        return 2 * self._noise

    def probe(self):
        return Seen(self)


class Seen(Probe):
    shift_coordinates = torch.tensor([2])

    def shown(self, phi, *, rows):
        """Outputs whose spread is the valley's width."""
        return phi[:, None, 2:] + self.task.width * torch.linspace(-1.7, 1.7, rows)[None, :, None]


def chosen(task, queries=60, caution=1.0):
    oracle = Oracle(task)
    archive, arm = Archive(oracle, queries, caution=caution), ThresholdArm(oracle.probe.shift_coordinates, rows=10)
    archive.observe(torch.zeros(1, 3), stage="start", plain=True)
    while not arm.spent and archive.left:
        arm.pull(archive)
    return archive


def test_it_finds_the_lowest_point_of_a_smooth_line_with_few_queries():
    archive = chosen(Line(lowest=0.83, noise=0.0), caution=1.0)
    assert abs(float(archive.plain[2]) - 0.83) < 0.03
    assert len(archive.costs) <= 22
    assert not archive.points[:, :2].any()
    assert {query.stage for query in archive.oracle.ledger.queries[1:]} == {"shift"}


def test_through_noise_the_curve_chooses_better_than_the_lowest_answer_on_average():
    by_curve, by_answer = [], []
    for seed in range(30):
        task = Line(lowest=0.6, noise=0.001, seed=seed)
        archive = chosen(task)
        by_curve.append(float(task.truth(archive.outcome().phi[2])))
        by_answer.append(float(task.truth(archive.best[2])))
    assert sum(by_curve) / 30 - 0.3 < 0.75 * (sum(by_answer) / 30 - 0.3)


def test_a_line_whose_answers_all_are_the_same_ends_it_at_once():
    task = Line(lowest=0.0, noise=0.0)
    task.truth = lambda shift: torch.full_like(shift, 0.3)  # type: ignore[method-assign]
    archive = chosen(task)
    assert len(archive.costs) == 3 and not archive.outcome().phi.any()


def test_shifts_without_an_answer_are_left_out_of_the_curve():
    archive = chosen(Line(lowest=0.83, noise=0.0, failing=(0.75, 1.25)))
    assert bool(archive.costs.isnan().any())
    assert abs(float(archive.outcome().phi[2]) - 0.83) < 0.06


@pytest.mark.parametrize("queries", range(4, 24))
def test_queries_that_end_before_the_curve_is_drawn_leave_the_lowest_answer(queries):
    task = Line(lowest=0.3, noise=0.004, seed=queries, width=1.0)
    archive = chosen(task, queries=queries)
    if archive.left:
        return  # it was drawn
    settled = float(archive.points[-1, 2]) == float(archive.outcome().phi[2])
    assert settled or torch.equal(archive.outcome().phi, archive.best)
    steps = 4 * archive.points[:-1, 2]
    assert torch.equal(
        steps, steps.round()
    )  # all but the last are on the grid: only what the curve chose is settled on
    assert (
        not settled
        or torch.equal(archive.outcome().phi, archive.best)
        or bool((steps != 4 * archive.points[-1, 2]).all())
    )


def test_outputs_of_a_small_spread_get_smaller_steps():
    archive = chosen(Line(lowest=0.083, noise=0.0, width=0.1))
    assert abs(float(archive.outcome().phi[2]) - 0.083) < 0.005
    assert float(archive.points[:, 2].abs().max()) < 0.5


def test_no_shift_is_asked_about_twice():
    archive = chosen(Line(lowest=1.6, noise=0.002))
    shifts = archive.points[:, 2]
    assert len(torch.unique((1e4 * shifts).round())) == len(shifts)
