"""Problems: fresh tasks from one network, and judging that no ledger sees."""

import pytest
import torch
from sklearn.metrics import f1_score

from metricopt.core.seeding import stream
from metricopt.metrics import f_beta, mcr
from metricopt_lab.problems import tabular


@pytest.fixture(scope="module")
def problem():
    return tabular("adult_a9a", f_beta(), seed=0, train_rows=4000, search_rows=800, accept_rows=800, test_rows=1500)


def test_each_task_has_its_own_ledger_and_the_same_function_of_phi(problem):
    one, other = problem.oracle(queries=4), problem.oracle(queries=4)
    phi = 0.3 * torch.randn(4, one.dim, generator=stream(0))
    assert torch.equal(one.observe(phi), other.observe(phi))
    assert one.ledger.remaining == other.ledger.remaining == 0
    assert one.task.model is other.task.model and one.task.cache is other.task.cache  # which are computed once
    assert one.task.model.net is not problem.net


def test_costs_agree_with_scikit_learn_on_every_part(problem):
    task = problem.task()
    phi = 0.5 * torch.randn(3, task.dim, generator=stream(1))
    for part, data in (("search", problem.search), ("accept", problem.accept), ("test", problem.test)):
        outputs = task.outputs(phi, data.inputs)
        expected = [1 - f1_score(data.targets, logits > 0) for logits in outputs]
        assert problem.costs(phi, part).tolist() == pytest.approx(expected)


def test_another_metric_may_be_asked_for(problem):
    oracle = problem.oracle(queries=1, metric=mcr())
    labels = problem.net(problem.search.inputs) > 0
    wrong = float((labels != problem.search.targets).double().mean())
    assert oracle.observe(torch.zeros(1, oracle.dim)).item() == pytest.approx(wrong)


def test_the_standard_error_of_an_error_rate_is_the_binomial_one(problem):
    task = problem.task()
    rate = float(problem.costs(torch.zeros(1, task.dim), "test", metric=mcr()))
    expected = (rate * (1 - rate) / len(problem.test)) ** 0.5
    of_mcr = type(problem)(**{**vars_of(problem), "metric": mcr()})
    assert of_mcr.standard_error() == pytest.approx(expected, rel=0.25)


def vars_of(problem):
    return {name: getattr(problem, name) for name in problem.__dataclass_fields__}
