"""The oracle against a scripted task: what is counted, written down, recalled, and made dearer by constraints."""

import math

import pytest
import torch

from metricopt.adapters import OutputAffine, adapt
from metricopt.core.errors import BudgetError, MetricError
from metricopt.data.dataset import Examples
from metricopt.metrics import Constraint, Metric, mcr
from metricopt.run.journal import open_journal
from metricopt.run.ledger import QueryLedger
from metricopt.task.base import Task
from metricopt.task.oracle import Oracle
from metricopt.task.supervised import SupervisedTask


class Line(Task):
    """The cost is phi itself; knows how often it was asked, in parts of how many."""

    dim = 1

    def __init__(self, at_once=2**31):
        self.asked, self.at_once = [], at_once

    def batches(self, population, generator):
        raise NotImplementedError

    def loss(self, phi, batch):
        raise NotImplementedError

    def costs(self, phi):
        self.asked.append(phi[:, 0].tolist())
        return phi[:, 0].double()

    @property
    def members_at_once(self):
        return self.at_once


def points(*values):
    return torch.tensor([[value] for value in values])


def test_each_member_is_one_query_and_all_answers_are_written_down_in_order():
    task = Line(at_once=2)
    oracle = Oracle(task)
    assert oracle.observe(points(0.5, 0.25, 0.75), stage="first").tolist() == [0.5, 0.25, 0.75]
    oracle.observe(points(0.125))
    assert task.asked == [[0.5, 0.25], [0.75], [0.125]]
    assert [(query.stage, query.cost) for query in oracle.ledger.queries] == [
        ("first", 0.5),
        ("first", 0.25),
        ("first", 0.75),
        ("query", 0.125),
    ]
    assert oracle.ledger.used == oracle.ledger.calls == 4 and oracle.dim == 1


def test_nothing_is_asked_beyond_the_grant():
    task = Line()
    oracle = Oracle(task, QueryLedger(budget=2))
    with pytest.raises(BudgetError, match="stage 'search' asks for 3 metric queries, but 2 of 2 are left"):
        oracle.observe(points(0.1, 0.2, 0.3), stage="search")
    assert not task.asked and oracle.ledger.used == 0


def test_two_oracles_of_one_task_count_apart():
    task = Line()
    one, other = Oracle(task), Oracle(task)
    one.observe(points(0.5))
    assert (one.ledger.used, other.ledger.used) == (1, 0)


def test_an_answer_that_was_paid_for_before_is_recalled_and_no_query_is_paid_twice(tmp_path):
    first, again = Line(), Line()
    with open_journal(tmp_path, {}) as journal:
        oracle = Oracle(first, QueryLedger(journal=journal))
        expected = oracle.observe(points(0.5, 0.25))
    with open_journal(tmp_path, {}, resume=True) as journal:
        resumed = Oracle(again, QueryLedger(journal=journal))
        assert torch.equal(resumed.observe(points(0.5, 0.25)), expected) and not again.asked
        resumed.observe(points(0.125))
    assert again.asked == [[0.125]] and resumed.ledger.used == 3


def test_a_member_without_an_answer_is_nan_and_counts():
    oracle = Oracle(Line())
    assert oracle.observe(points(0.5, math.nan)).isnan().tolist() == [False, True]
    assert (oracle.ledger.used, oracle.ledger.failures) == (2, 1)


def test_a_task_without_predictions_has_no_noise_and_no_doubt_and_cannot_keep_constraints():
    oracle = Oracle(Line())
    assert oracle.noise_std() == oracle.doubt(*points(0.1, 0.2)) == 0.0 and oracle.margins() == []
    bound = Oracle(Line(), keep=[Constraint("accuracy", at_least=0.5)])
    with pytest.raises(MetricError, match="Line has no predictions that metric 'accuracy' could be computed on"):
        bound.observe(points(0.5))


X = torch.linspace(-1, 1, 200)[:, None]
DATA = Examples(X, (X[:, 0] > 0).long())


def shifted(keep, metric=None):
    """A network that says yes from -0.5 on, and a phi that shifts it."""
    model = adapt(torch.nn.Linear(1, 1), OutputAffine())
    _ = model.net.weight.data.fill_(1.0), model.net.bias.data.fill_(0.5)
    return Oracle(SupervisedTask(model, metric=metric or mcr(), train=DATA, search=DATA), keep=keep)


def shifts(*values):
    return torch.tensor([[0.0, value] for value in values])


def yes(truth, labels):
    return float(labels.mean())


def test_a_member_that_breaks_a_constraint_never_costs_less_than_the_original():
    keep = Constraint(Metric(yes, on="labels", goal="max", name="yes"), at_least=0.6)
    oracle = shifted([keep])
    costs = oracle.observe(shifts(0.0, -0.5, 0.2))  # yes to 75%, 50% and 85%; errors on 25%, 0% and 35%
    (margin,) = oracle.margins()
    assert margin > 0 and costs[0] == pytest.approx(0.25) and costs[2] == pytest.approx(0.35)
    assert costs[1] == pytest.approx(0.25 + 0.6 + margin - 0.5)
    assert [query.kept[0] for query in oracle.ledger.queries] == pytest.approx([0.75, 0.5, 0.85])
    assert [query.cost for query in oracle.ledger.queries] == pytest.approx([0.25, 0.0, 0.35])


def test_where_the_original_breaks_a_constraint_too_breaking_costs_more_than_anything():
    oracle = shifted([Constraint(Metric(yes, on="labels", goal="max", name="yes"), at_least=0.8)])
    costs = oracle.observe(shifts(0.0, -0.5, 0.9))
    assert bool((costs[:2] > 1).all()) and costs[2] < 1


def test_the_margin_of_a_cheap_constraint_is_measured_once_and_its_calls_are_counted():
    oracle = shifted([Constraint(Metric(yes, on="labels", goal="max", name="yes"), at_least=0.6)])
    spread = math.sqrt(0.75 * 0.25 / 200)
    (margin,) = oracle.margins()
    assert margin == pytest.approx(oracle.keep[0].margin(spread), rel=0.35)
    assert oracle.margins() == [margin] and (oracle.ledger.checks, oracle.ledger.resamples) == (1, 100)


def test_the_margin_of_a_dear_constraint_takes_one_call():
    asked = []

    def share(truth, labels):
        asked.append(len(truth))
        return float(labels.mean())

    oracle = shifted([Constraint(Metric(share, on="labels", goal="max", name="share", costly=True), at_least=0.6)])
    (margin,) = oracle.margins()
    assert len(asked) == oracle.ledger.checks == oracle.ledger.calls == 1
    assert margin == pytest.approx(oracle.keep[0].margin(math.sqrt(0.75 * 0.25 / 200)), rel=0.01)


def test_a_dear_metric_is_never_resampled_and_its_noise_is_guessed():
    asked = []

    def error(truth, labels):
        asked.append(len(truth))
        return float((truth != labels).mean())

    oracle = shifted([], Metric(error, on="labels", goal="min", costly=True))
    assert oracle.noise_std() == pytest.approx(0.5 / math.sqrt(200))
    phi, other = shifts(0.0, -0.5)
    assert oracle.doubt(phi, other) > 0 and oracle.doubt(phi, phi) == 0
    assert not asked and oracle.ledger.calls == 0 and not oracle.asks_cheaply


def test_what_a_run_has_asked_on_resamples_is_not_asked_again_within_it(tmp_path):
    asked = []

    def error(truth, labels):
        asked.append(len(truth))
        return float((truth != labels).mean())

    oracle = shifted([], Metric(error, on="labels", goal="min"))
    points = shifts(0.0, -0.1, -0.2, -0.3, -0.4, -0.5, -0.6)
    with open_journal(tmp_path, {}) as oracle.ledger.journal:
        first = [oracle.doubt(points[0], other) for other in points[1:]]
        calls = len(asked)
        assert [oracle.doubt(points[0], other) for other in points[1:]] == first  # more than are remembered
    assert len(asked) == calls == 7 * 24 == oracle.ledger.resamples == oracle.ledger.calls
