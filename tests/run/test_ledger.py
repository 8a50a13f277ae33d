import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from metricopt.core.errors import BudgetError
from metricopt.run.ledger import Query, QueryLedger


@settings(deadline=None)
@given(budget=st.integers(0, 30), wishes=st.lists(st.integers(0, 8), max_size=12))
def test_it_grants_exactly_what_fits_the_budget(budget, wishes):
    ledger, used = QueryLedger(budget=budget), 0
    for wish in wishes:
        if used + wish <= budget:
            ledger.charge(wish, stage="search")
            used += wish
        else:
            with pytest.raises(BudgetError, match=f"asks for {wish} metric queries, but {budget - used} of {budget} "):
                ledger.charge(wish, stage="search")
        assert (ledger.used, ledger.remaining) == (used, budget - used)


def test_without_a_budget_there_is_always_more_left_than_anyone_needs():
    ledger = QueryLedger()
    ledger.charge(10**6, stage="search")
    assert ledger.used == 10**6 and ledger.remaining > 10**9


def test_queries_are_written_down_in_order_with_their_stage():
    ledger = QueryLedger()
    ledger.enter(torch.tensor([0.5, 0.25]), stage="collect")
    ledger.enter(torch.tensor([0.75]), stage="search")
    assert ledger.queries == [Query("collect", 0.5), Query("collect", 0.25), Query("search", 0.75)]


def test_a_failed_query_counts_as_a_failure_and_never_as_the_best():
    ledger = QueryLedger()
    ledger.enter(torch.tensor([math.nan, 0.5, math.nan, 0.75, 0.25]), stage="search")
    assert ledger.failures == 2
    assert ledger.best_so_far().tolist() == [math.inf, 0.5, 0.5, 0.5, 0.25]


def test_before_the_first_query_there_is_no_best():
    assert QueryLedger().best_so_far().shape == (0,)


def test_ledgers_do_not_share_their_queries():
    first, second = QueryLedger(), QueryLedger()
    first.enter(torch.tensor([0.5]), stage="search")
    assert second.queries == []


def test_a_listener_hears_of_every_entry_after_it_was_written_down():
    heard = []
    ledger = QueryLedger(listener=lambda book: heard.append(len(book.queries)))
    ledger.enter(torch.tensor([0.5, 0.25]), stage="collect")
    ledger.enter(torch.tensor([0.75]), stage="search")
    assert heard == [2, 3]
