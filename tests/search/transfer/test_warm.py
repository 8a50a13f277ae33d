"""A search that begins with what another has learnt: better where that holds, hardly dearer where it misleads."""

import pytest
import torch

from metricopt.search.recipe import Recipe
from metricopt.search.transfer import CarriedValue
from metricopt.search.transfer.bringing import Bringing
from metricopt.search.transfer.forecast import Forecast
from metricopt.search.transfer.keepsake import Keepsake
from metricopt.search.transfer.place import Place
from metricopt.search.transfer.warm import WarmStart
from metricopt.search.walk import walk
from metricopt.task.oracle import Oracle
from metricopt.task.quadratic import QuadraticTask

PLACE = Place("mcr", "min", "labels", "FiLM of 8, seed 0", 0, "rows")
FAST = Recipe(candidates=40, looks=20)
QUERIES = 40


def taught(sign=1.0):
    """Answers about the same quadratic or, with another sign, about its opposite."""
    phi = torch.randn(80, 8, generator=torch.Generator().manual_seed(1))
    phi[0] = 0
    costs = QuadraticTask(dim=8).costs(phi).float()
    costs = costs if sign > 0 else costs.max() - costs
    return CarriedValue(
        PLACE, costs, phi, torch.zeros(0, 0, 0), torch.zeros(0, 0), {"radius": 0.1, "length": 2.0, "noise": 0.01}
    )


def searched(value, kind="phi", queries=QUERIES):
    oracle = Oracle(QuadraticTask(dim=8))
    bringing = None if value is None else Bringing(value, kind, queries, same_metric=True)
    walk(oracle, queries=queries, seed=0, starts=torch.zeros(0, 8), recipe=FAST, value=bringing)
    return oracle.ledger


def test_a_value_function_of_the_same_task_gains_at_once_what_takes_a_cold_search_long():
    cold, warm = searched(None).best_so_far(), searched(taught()).best_so_far()
    assert warm[3] < cold[9]
    assert warm[-1] <= 1.5 * cold[-1] + 0.01


def test_one_that_misleads_is_tried_by_few_queries_and_let_go_of():
    ledger = searched(taught(sign=-1.0))
    tried = sum(query.stage == "transfer" for query in ledger.queries)
    assert 1 <= tried <= QUERIES // 10
    assert ledger.best_so_far()[-1] < 0.5 * ledger.best_so_far()[0]
    assert len(ledger.queries) == QUERIES


def warm_start(queries):
    return WarmStart(Forecast(taught(), "phi"), queries=queries, same_metric=True)


def sure(mean, std=0.01):
    return torch.tensor([mean]), torch.tensor([std])


@pytest.mark.parametrize("queries", [50, 79])
def test_one_that_goes_on_gaining_is_kept_however_few_queries_there_are(queries):
    warm = warm_start(queries)
    for _ in range(3):
        warm.judge(sure(0.5), sure(0.5), torch.full((5,), 0.5), gained=True)
    assert warm.holds


@pytest.mark.parametrize("queries", [50, 100, 150])
def test_it_is_let_go_of_before_more_than_a_tenth_of_the_queries_have_gained_nothing(queries):
    warm, spent = warm_start(queries), 0
    while warm.holds:
        warm.judge(sure(0.5), sure(0.5), torch.full((5,), 0.5), gained=False)
        spent += 5
    assert spent == queries / 10


def test_former_merits_are_no_credit_for_forecasts_that_mislead():
    warm, answers = warm_start(1000), torch.full((5,), 0.5)
    warm.judge(sure(0.9, 0.001), sure(0.5), answers, gained=True)  # the search's own was sure and wrong
    assert warm.holds
    warm.judge(sure(0.5), sure(0.6), answers, gained=True)
    assert not warm.holds and "forecasts better" in warm.why


def test_with_too_few_queries_nothing_is_tried():
    assert all(query.stage != "transfer" for query in searched(taught(), queries=9).queries)


def test_settings_alone_ask_nothing_about_themselves():
    assert all(query.stage != "transfer" for query in searched(taught(), kind="search").queries)


def test_gathering_answers_changes_no_bit_of_a_search():
    oracles = [Oracle(QuadraticTask(dim=8)) for _ in range(2)]
    keepsake = Keepsake()
    for oracle, kept in zip(oracles, (None, keepsake), strict=True):
        walk(oracle, queries=30, seed=0, starts=torch.zeros(0, 8), recipe=FAST, keepsake=kept)
    plain, gathered = ([query.cost for query in oracle.ledger.queries] for oracle in oracles)
    assert plain == gathered
    assert keepsake.costs.tolist() == pytest.approx(plain)
    assert set(keepsake.settings) == {"radius", "length", "noise"}
