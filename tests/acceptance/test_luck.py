"""How lucky a search can be on the rows it was made on: in the end as much as its directions allow."""

import math

import pytest
import torch
from scipy import integrate, stats

from metricopt.acceptance.luck import best_of, judged_rungs, luck, luck_of_search
from metricopt.core.records import Outcome
from metricopt.task.oracle import Oracle
from metricopt.task.quadratic import QuadraticTask

ZERO, PLAIN, EARLY, LATER, END = (torch.full((40,), float(number)) for number in range(5))


@pytest.mark.parametrize("freedom", [1, 34, 46])
def test_luck_begins_at_nothing_grows_with_the_queries_and_ends_at_the_root_of_the_directions(freedom):
    grown = [luck(freedom, queries) for queries in (0, 50, 150, 500, 2000)]
    assert grown[0] == 0 and grown == sorted(grown)
    assert luck(freedom, 10**9) == pytest.approx(math.sqrt(freedom), rel=1e-3)


def test_the_best_direction_of_nothing_but_noise_looks_better_by_the_root_of_the_directions():
    # Each row likes each of 40 directions by chance; the step chosen is the one that the rows like best together.
    rows, freedom = 2000, 40
    likes = torch.randn(rows, freedom, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gains = likes @ likes.mean(0)
    seen = float(gains.mean() / (gains.std() / math.sqrt(rows)))
    assert seen == pytest.approx(stats.chi(freedom).mean(), rel=0.25)
    assert seen == pytest.approx(luck(freedom, 10**9), rel=0.25)


@pytest.mark.parametrize("count", [3, 10, 50, 500])
def test_the_best_of_some_that_are_as_good_as_each_other_looks_better_by_the_largest_of_as_many_normals(count):
    def integrand(x):
        return x * count * stats.norm.pdf(x) * stats.norm.cdf(x) ** (count - 1)

    assert best_of(count) == pytest.approx(integrate.quad(integrand, -10, 10)[0], abs=0.03)


def test_a_search_is_as_lucky_as_a_choice_at_first_and_as_a_climb_later():
    assert luck_of_search(34, 25) == best_of(25) > luck(34, 25)
    assert luck_of_search(34, 500) == luck(34, 500) > best_of(500)
    assert luck_of_search(34, 1) > 0  # a single answer is no choice, and still is no measurement without error


def rungs_of(monkeypatch, leads, *, shifts=1, plain=PLAIN, end=(160, END)):
    """What is judged of a search whose stages are ahead of the original by so many standard errors."""
    oracle = Oracle(QuadraticTask(dim=40, shifts=shifts))
    monkeypatch.setattr(oracle, "lead", lambda phi, _: None if leads is None else leads[int(phi[0])])
    incumbents = ((1, ZERO), (20, EARLY), (80, LATER), end, (200, END))
    found = Outcome(END, incumbents, plain=((1, ZERO), (10, plain)))
    rungs, lucky = judged_rungs(oracle, found)
    return rungs[:, 0].tolist(), lucky


def test_the_surest_of_plain_steps_and_stages_is_judged_beside_the_end(monkeypatch):
    surely_plain = rungs_of(monkeypatch, [0, 3.0, 3.0, 3.0])
    assert surely_plain == ([1, 4], [luck(1, 200), luck_of_search(40, 160)])
    surely_early = rungs_of(monkeypatch, [0, 1.0, 5.0, 5.0])
    assert surely_early == ([2, 4], [luck_of_search(40, 20), luck_of_search(40, 160)])
    surely_later = rungs_of(monkeypatch, [0, 1.0, 2.0, 5.0])
    assert surely_later == ([3, 4], [luck_of_search(40, 80), luck_of_search(40, 160)])


def test_of_several_outputs_a_plain_step_is_the_best_of_a_few_starts(monkeypatch):
    assert rungs_of(monkeypatch, [0, 9.0, 0.0, 0.0], shifts=3)[1][0] == best_of(3)


def test_without_a_plain_step_a_stage_may_be_judged(monkeypatch):
    assert rungs_of(monkeypatch, [0, 9.0, 4.0, 0.0], plain=ZERO)[0] == [2, 4]


def test_the_end_is_as_lucky_as_the_answers_were_many_when_it_was_found(monkeypatch):
    assert rungs_of(monkeypatch, [0, 1.0, 5.0, 5.0], end=(100, END))[1][1] == luck_of_search(40, 100)


def test_of_a_metric_that_is_not_resampled_the_plain_step_is_judged_beside_the_end(monkeypatch):
    assert rungs_of(monkeypatch, None)[0] == [1, 4]
    assert rungs_of(monkeypatch, None, plain=ZERO)[0] == [4]
