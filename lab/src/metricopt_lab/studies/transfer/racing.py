"""A search raced against cold ones: how many queries it needs to reach what they have reached."""

import time
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from metricopt.api.optimize import propose
from metricopt.api.transfer import Transfer
from metricopt.core.records import Outcome
from metricopt.run.ledger import QueryLedger
from metricopt.search import Recipe
from metricopt.search.transfer import CarriedValue
from metricopt.search.transfer.place import place_of
from metricopt.search.transfer.refusals import obstacle
from metricopt_lab.cells import Record
from metricopt_lab.problems import Problem

_COLD = 2  # cold runs with other seeds, whose mean at the full number of queries is the goal
_MORE = 4 / 3  # of the queries: what a run has to reach it


@final
@dataclass(frozen=True)
class Race:
    """A problem and the cost that is to be reached there.

    Attributes:
        problem: Where it is searched.
        queries: That cold searches had.
        goal: The mean of their costs in the end.
        spread: The difference between these.
    """

    problem: Problem
    queries: int
    goal: float
    spread: float

    def run(self, value: CarriedValue | None, *, seed: int) -> Record:
        """Queries that a search needs; None if the value was refused, or if the goal was not reached."""
        problem, queries = self.problem, self.queries
        fixed = {
            "goal": problem.metric.goal, "target_cost": self.goal, "cold_spread": self.spread, "granted": queries,
            "fingerprint": place_of(problem.task(), rows=Recipe().rows).rows, "problem": problem.notes,
        }  # fmt: skip
        refused = self._refused(value)
        if refused:
            return {**fixed, "refused": refused, "needed": None, "queries": 0, "seconds": 0.0}
        began = time.perf_counter()
        ledger, transfer, outcome = searched(
            problem, round(_MORE * queries), queries=queries, seed=seed, value=value
        )  # fmt: skip
        best = ledger.best_so_far()
        reached = (best <= self.goal).nonzero()
        return {
            **fixed,
            "refused": "",
            "kind": None if transfer.brought is None else transfer.brought.kind,
            "needed": int(reached[0]) + 1 if len(reached) else None,
            "curve": [round(float(best[min(at, len(best)) - 1]), 6) for at in (10, 20, 50, 100, queries)],
            "test_gain": _test_gain(problem, outcome.at(queries)),
            "transfer_queries": sum(query.stage == "transfer" for query in ledger.queries),
            "queries": ledger.used,
            "seconds": time.perf_counter() - began,
        }

    def _refused(self, value: CarriedValue | None) -> str:
        if value is None or value.kind is None:
            return ""
        return obstacle(value, place_of(self.problem.task(), rows=rows_of(self.queries)), value.kind)


def race_on(problem: Problem, *, queries: int, seed: int) -> Race:
    """The goal that cold searches set."""
    ends = [
        float(searched(problem, queries, queries=queries, seed=seed + 2000 + k)[0].best_so_far()[-1])
        for k in range(_COLD)
    ]
    return Race(problem, queries, sum(ends) / len(ends), max(ends) - min(ends))


def taught(problem: Problem, *, queries: int, seed: int) -> CarriedValue:
    """What a search of the problem has learnt."""
    value = searched(problem, queries, queries=queries, seed=seed + 1000)[1].learnt()
    assert value is not None  # it has asked about more than one point
    return value


def searched(
    problem: Problem, granted: int, *, queries: int, seed: int, value: CarriedValue | None = None
) -> tuple[QueryLedger, Transfer, Outcome]:
    """A search with so many queries granted of a plan for `queries`."""
    oracle = problem.oracle(queries=granted)
    recipe = Recipe(start_steps=10, candidates=40, rows=rows_of(queries)) if queries < 50 else Recipe()
    transfer = Transfer(oracle.task, recipe, value, queries=queries)
    outcome, _ = propose(oracle, queries=granted, recipe=recipe, seed=seed, transfer=transfer)
    return oracle.ledger, transfer, outcome


def rows_of(queries: int) -> int:
    """Rows that a search looks at; fewer at scale smoke."""
    return 100 if queries < 50 else Recipe().rows


def _test_gain(problem: Problem, phi: Tensor) -> float:
    before, after = problem.costs(torch.stack([torch.zeros_like(phi), phi]), "test").tolist()
    return before - after
