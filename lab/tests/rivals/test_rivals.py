"""What is peculiar to single rivals, against closed forms."""

import math
import sys

import pytest
import torch

from metricopt.core.errors import AdapterError, DataError
from metricopt.task.oracle import Oracle
from metricopt_lab.problems import QuadraticTask
from metricopt_lab.rivals.cma_es import cma_es
from metricopt_lab.rivals.descent import label_batches, loss_path
from metricopt_lab.rivals.loss_dense import loss_dense
from metricopt_lab.rivals.loss_only import loss_only
from metricopt_lab.rivals.post_shift import post_shift
from metricopt_lab.rivals.snes import snes, utilities
from metricopt_lab.rivals.spsa import spsa


@pytest.mark.parametrize("shifts", [1, 3])
def test_post_shift_finds_the_best_shifts_and_touches_nothing_else(shifts):
    task = QuadraticTask(dim=5, shifts=shifts, scale=2.0)
    oracle = Oracle(task)
    phi = post_shift(oracle, queries=300, seed=0).phi
    assert not phi[:-shifts].any()
    assert torch.allclose(phi[-shifts:], task.optimum[-shifts:], atol=0.05)
    assert oracle.ledger.used < 150  # it stops by itself


def test_post_shift_needs_an_adapter_that_shifts_outputs():
    with pytest.raises(AdapterError, match=r"dim 5\) that shifts no outputs; .* add OutputAffine\(\)"):
        post_shift(Oracle(QuadraticTask(dim=5, shifts=0)), queries=10, seed=0)


def test_loss_finetuning_ends_at_the_optimum_of_the_loss_and_not_of_the_metric():
    task = QuadraticTask(dim=4, noise=0.1)
    phi = loss_only(Oracle(task), queries=0, seed=0).phi
    assert torch.allclose(phi, task.loss_optimum, atol=0.05)
    assert not torch.allclose(phi, task.optimum, atol=0.05)


def test_the_metric_as_a_judge_stops_loss_finetuning_where_it_was_best():
    task = QuadraticTask(dim=4)
    dense = loss_dense(Oracle(task), queries=250, seed=0).phi
    ends = task.costs(torch.stack([dense, loss_only(Oracle(task), queries=0, seed=0).phi]))
    assert ends[0] <= ends[1]


def test_a_loss_that_is_no_number_stops_the_path_but_not_the_run():
    task = QuadraticTask(dim=2)
    path = loss_path(task, iter([torch.zeros(1, 2), torch.full((1, 2), math.nan), torch.zeros(1, 2)]), steps=3)
    assert path.isfinite().all()
    assert torch.equal(path[1], path[2])
    assert not torch.equal(path[2], path[3])


def test_labels_that_are_hidden_are_not_used():
    with pytest.raises(DataError, match=r"QuadraticTask which hides them; .* labels_visible=True"):
        label_batches(QuadraticTask(), seed=0)


@pytest.mark.parametrize(("rival", "cost"), [(cma_es, 1e-3), (snes, 1e-3), (spsa, 0.1)])
def test_searches_come_close_to_a_known_optimum(rival, cost):
    task = QuadraticTask(dim=8)
    assert task.costs(rival(Oracle(task), queries=600, seed=0).phi[None]).item() < cost


@pytest.mark.parametrize("population", [4, 7, 20])
def test_utilities_fall_sum_to_zero_and_are_equal_for_the_worse_half(population):
    weights = utilities(population)
    assert weights.sum().item() == pytest.approx(0, abs=1e-6)
    assert (weights.diff() <= 0).all()
    assert weights[(population + 1) // 2 :].tolist() == pytest.approx([-1 / population] * (population // 2))


def test_without_pycma_one_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "cma", None)
    with pytest.raises(ModuleNotFoundError, match=r"'cma' is not installed.*pip install cma"):
        cma_es(Oracle(QuadraticTask()), queries=20, seed=0)


def test_pycma_writes_no_files_and_says_nothing(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    cma_es(Oracle(QuadraticTask()), queries=60, seed=0)
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")
