import math

import pytest
import torch

from metricopt.core.errors import ObservationError
from metricopt.run.ledger import QueryLedger
from metricopt.search.archive import Archive
from metricopt.task.base import Task
from metricopt.task.oracle import Oracle


class Scripted(Task):
    """Answers one number after the other, and doubts every difference by a fixed amount."""

    dim = 2

    def __init__(self, *answers, doubt=0.0):
        self.answers, self.sure = list(answers), doubt

    def batches(self, population, generator):
        raise NotImplementedError

    def loss(self, phi, batch):
        raise NotImplementedError

    def costs(self, phi):
        return torch.tensor([self.answers.pop(0) for _ in phi])

    def doubt_guess(self, phi, other):  # noqa: ARG002
        return self.sure


def scripted(*answers, doubt=0.0, max_failures=None):
    return Oracle(Scripted(*answers, doubt=doubt), QueryLedger(max_failures=max_failures))


def points(*values):
    return torch.tensor([[float(value), 0.0] for value in values])


def test_it_asks_as_often_as_it_may_and_no_more():
    archive = Archive(scripted(0.5, 0.4, 0.3), 3)
    archive.observe(points(1, 2), stage="a")
    assert archive.left == 1
    archive.observe(points(3, 4, 5), stage="b")
    archive.observe(points(6), stage="c")
    assert archive.left == 0 and archive.oracle.ledger.used == 3
    assert archive.points[:, 0].tolist() == [1, 2, 3]
    assert [query.stage for query in archive.oracle.ledger.queries] == ["a", "a", "b"]


def test_the_best_point_is_the_lowest_answer_and_each_call_leaves_an_incumbent():
    archive = Archive(scripted(0.5, 0.4, math.nan, 0.6, 0.2), 5)
    for some in (points(1, 2), points(3, 4), points(5)):
        archive.observe(some, stage="a")
    outcome = archive.outcome()
    assert archive.best_cost == pytest.approx(0.2) and archive.best.tolist() == [5, 0]
    assert [(used, float(phi[0])) for used, phi in outcome.incumbents] == [(2, 2), (4, 2), (5, 5)]
    assert outcome.phi.tolist() == [5, 0]
    known, costs = archive.known()
    assert known[:, 0].tolist() == [1, 2, 4, 5] and costs.tolist() == pytest.approx([0.5, 0.4, 0.6, 0.2])


def test_a_gain_within_the_doubt_moves_the_search_but_is_not_returned():
    archive = Archive(scripted(0.5, 0.45, 0.3, doubt=0.1), 3, caution=1.0)
    for value in (1, 2):
        archive.observe(points(value), stage="a")
    assert archive.best[0] == 2 and archive.outcome().phi[0] == 1
    archive.observe(points(3), stage="a")
    assert archive.outcome().phi[0] == 3


def test_a_free_point_has_to_beat_the_best_plain_one_by_the_luck_of_so_many_tries():
    costs = [0.5, 0.44, *[0.6] * 97, 0.2, 0.1]  # the first two plain ones, then 99 found in all directions
    archive = Archive(scripted(*costs, doubt=0.1), 101, caution=1.0)
    archive.observe(points(1), stage="start", plain=True)
    archive.observe(points(2), stage="shift", plain=True)
    assert archive.outcome().phi[0] == 2, "a plain gain needs no proof"
    archive.observe(points(*range(3, 100)), stage="value")
    archive.observe(points(100), stage="value")
    assert archive.best[0] == 100 and archive.outcome().phi[0] == 2
    assert 0.44 - 0.2 < 0.1 * math.sqrt(2 * math.log(98)) < 0.44 - 0.1
    archive.observe(points(101), stage="value")
    assert archive.outcome().phi[0] == 101


def test_the_best_plain_point_is_remembered_beside_the_best_of_all():
    archive = Archive(scripted(0.5, 0.4, 0.3), 3)
    archive.observe(points(1), stage="start", plain=True)
    archive.observe(points(2), stage="value")
    archive.observe(points(3), stage="shift", plain=True)
    assert archive.plain[0] == archive.best[0] == 3
    assert archive.plain_cost == archive.best_cost == pytest.approx(0.3)


def test_without_caution_every_gain_is_returned():
    archive = Archive(scripted(0.5, 0.49, doubt=10.0), 2)
    archive.observe(points(1), stage="a")
    archive.observe(points(2), stage="a")
    assert archive.outcome().phi[0] == 2


def test_too_many_failures_leave_no_queries():
    archive = Archive(scripted(0.5, math.nan, math.nan, max_failures=1), 10)
    archive.observe(points(1, 2), stage="a")
    assert archive.left == 8
    archive.observe(points(3), stage="a")
    assert archive.left == 0


def test_without_a_single_answer_there_is_no_outcome():
    archive = Archive(scripted(math.nan), 1)
    archive.observe(points(1), stage="a")
    with pytest.raises(ObservationError, match="none of 1 metric queries was answered"):
        archive.outcome()


@pytest.mark.parametrize(("doubt", "settled"), [(0.05, True), (0.001, False)])
def test_the_last_plain_point_is_settled_on_unless_the_lowest_is_better_by_more_than_the_doubt(doubt, settled):
    archive = Archive(scripted(0.5, 0.4, 0.41, doubt=doubt), 3, caution=1.0)
    archive.observe(points(1, 2, 3), stage="shift", plain=True)
    archive.settle()
    outcome = archive.outcome()
    assert float(archive.plain[0]) == float(outcome.phi[0]) == (3 if settled else 2)
    assert archive.best.tolist() == [2, 0]  # where the search goes on
    assert float(outcome.plain[-1][1][0]) == (3 if settled else 2)


def test_settling_on_a_plain_point_leaves_a_better_one_of_all_directions_alone():
    archive = Archive(scripted(0.5, 0.1, 0.4, 0.41, doubt=0.05), 4, caution=1.0)
    archive.observe(points(1), stage="shift", plain=True)
    archive.observe(points(2), stage="value")
    archive.observe(points(3, 4), stage="shift", plain=True)
    archive.settle()
    outcome = archive.outcome()
    assert float(outcome.phi[0]) == 2 and outcome.rungs()[:, 0].tolist() == [4, 2]


def test_a_point_without_an_answer_is_not_settled_on():
    archive = Archive(scripted(0.5, math.nan, doubt=1.0), 2, caution=1.0)
    archive.observe(points(1, 2), stage="shift", plain=True)
    archive.settle()
    assert archive.outcome().phi.tolist() == [1, 0]


def test_a_point_that_looks_no_better_than_the_original_is_not_settled_on():
    archive = Archive(scripted(0.5, 0.49, 0.51, doubt=1.0), 3, caution=1.0)
    archive.observe(points(0, 1, 2), stage="shift", plain=True)
    archive.settle()
    assert archive.outcome().phi.tolist() == [1, 0]


def test_what_has_been_asked_is_known_up_to_rounding():
    archive = Archive(scripted(0.5, 0.4), 2)
    archive.observe(points(1, 2), stage="a")
    assert archive.asked(points(1.0000001, 1.5, 2)).tolist() == [True, False, True]
    assert Archive(scripted(), 2).asked(points(1)).tolist() == [False]
