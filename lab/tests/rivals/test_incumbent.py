"""The record of the best vector: budget, failures, ties."""

import math

import torch

from metricopt.run.ledger import QueryLedger
from metricopt.task.oracle import Oracle
from metricopt_lab.problems import QuadraticTask
from metricopt_lab.rivals import Incumbent


def test_vectors_beyond_the_budget_are_not_asked_about():
    oracle = Oracle(QuadraticTask(dim=2), QueryLedger(budget=4))
    best = Incumbent(oracle, queries=4)
    assert len(best.observe(torch.ones(10, 2))) == 3
    assert len(best.observe(torch.ones(10, 2))) == 0
    assert best.left == 0


def test_a_budget_of_nothing_keeps_the_start():
    oracle = Oracle(QuadraticTask(dim=2), QueryLedger(budget=0))
    outcome = Incumbent(oracle, queries=0, start=torch.ones(2)).outcome()
    assert outcome.at(0).tolist() == [1.0, 1.0]
    assert math.isinf(Incumbent(oracle, queries=0).cost)


def test_the_query_that_found_a_vector_is_its_place_in_a_batch():
    task = QuadraticTask(dim=2)
    best = Incumbent(Oracle(task), queries=10)
    best.observe(torch.stack([torch.full((2,), 9.0), task.optimum, torch.full((2,), 9.0)]))
    assert [used for used, _ in best.outcome().incumbents] == [0, 1, 3]
    assert torch.equal(best.phi, task.optimum)


def test_of_equal_vectors_the_first_stays():
    task = QuadraticTask(dim=2)
    best = Incumbent(Oracle(task), queries=5)
    best.observe(torch.zeros(4, 2))
    assert best.outcome().incumbents[-1][0] == 1


def test_a_later_change_of_the_batch_does_not_change_the_record():
    task = QuadraticTask(dim=2)
    best, batch = Incumbent(Oracle(task), queries=5), torch.stack([task.optimum])
    best.observe(batch)
    batch.zero_()
    assert torch.equal(best.outcome().phi, task.optimum)
