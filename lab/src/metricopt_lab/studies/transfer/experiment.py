"""How many queries each kind of transfer saves, on six pairs of searches."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import torch
from torch import Tensor

from metricopt.api.optimize import propose
from metricopt.api.transfer import Transfer
from metricopt.core.records import Outcome
from metricopt.run.ledger import QueryLedger
from metricopt.search import RECIPE_VERSION, Recipe
from metricopt.search.transfer import KINDS, CarriedValue
from metricopt.search.transfer.place import place_of
from metricopt.search.transfer.refusals import obstacle
from metricopt_lab.cells import EXPERIMENTS, Record, ScaledCell, ScaledExperiment
from metricopt_lab.problems import Problem
from metricopt_lab.studies.transfer.pairs import PAIRS, SIZES
from metricopt_lab.studies.transfer.plot import draw_needed
from metricopt_lab.studies.transfer.text import transfer_text

VERSION = 1
"""Of carrying over, to be bumped with any change of what a search with a value finds; beside the search's own."""

METHODS = ("cold", *KINDS, "first")
"""Without anything; with each kind alone; with the first kind that fits, as `optimize(value=...)` takes it."""

_COLD = 2  # cold runs with other seeds, whose mean at the full number of queries is the goal
_MORE = 4 / 3  # of the queries: what a run has to reach it


@dataclass(frozen=True)
class Ground:
    """The second problem of a pair, what the first search has learnt, and the cost that is to be reached."""

    problem: Problem
    value: CarriedValue
    goal: float
    spread: float


@EXPERIMENTS.add("transfer")
@final
class TransferStudy(ScaledExperiment[Ground]):
    """Queries that a search needs to reach what a cold one gains, with what another search has taught it."""

    scales = tuple(SIZES)
    data_kind = "pair"

    def known_data(self) -> list[str]:
        """The pairs; at scale smoke one, of rows that come with the package."""
        return ["network_ranking"] if self.settings.scale == "smoke" else list(PAIRS)

    def cells(self) -> list[ScaledCell]:
        """Every kind of transfer for every pair and seed, all pairs of a seed before the next seed."""
        return [
            ScaledCell(self.settings.scale, pair, "plain", seed, PAIRS[pair].second.metric().name, method)
            for seed in range(self.settings.seeds)
            for pair in self.data()
            for method in METHODS
        ]

    def ground(self, first: ScaledCell) -> Ground:
        """The first search, and cold ones of the second problem."""
        pair, queries = PAIRS[first.data], SIZES[first.scale].queries
        teacher = pair.first.build(first.scale, first.seed)
        value = _searched(teacher, queries, queries=queries, seed=first.seed + 1000)[1].learnt()
        assert value is not None
        problem = pair.second.build(first.scale, first.seed)
        ends = [
            float(_searched(problem, queries, queries=queries, seed=first.seed + 2000 + k)[0].best_so_far()[-1])
            for k in range(_COLD)
        ]
        return Ground(problem, value, sum(ends) / len(ends), max(ends) - min(ends))

    def measure(self, ground: Ground, cell: ScaledCell) -> Record:
        """Queries needed; None if it was refused, or if the goal was not reached."""
        problem, queries = ground.problem, SIZES[cell.scale].queries
        fixed = {
            "goal": problem.metric.goal, "target_cost": ground.goal, "cold_spread": ground.spread, "granted": queries,
            "fingerprint": place_of(problem.task(), rows=Recipe().rows).rows, "problem": problem.notes,
        }  # fmt: skip
        value = None if cell.method == "cold" else ground.value
        if value is not None and cell.method != "first":
            value = value.only(cell.method)  # pyright: ignore[reportArgumentType]
        refused = _refused(ground, value)
        if refused:
            return {**fixed, "refused": refused, "needed": None, "queries": 0, "seconds": 0.0}
        began = time.perf_counter()
        ledger, transfer, outcome = _searched(
            problem, round(_MORE * queries), queries=queries, seed=cell.seed, value=value
        )
        best = ledger.best_so_far()
        reached = (best <= ground.goal).nonzero()
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

    def version_of(self, method: str) -> int:
        """That of the search; with something carried over, that of carrying beside it."""
        return RECIPE_VERSION if method == "cold" else 100 * RECIPE_VERSION + VERSION

    def text(self, records: Sequence[Record]) -> str:
        """A row for each pair and kind, with intervals, and verdicts."""
        return transfer_text(records)

    def draw(self, records: Sequence[Record], folder: Path) -> None:
        """Queries needed by each kind on each pair."""
        draw_needed(records, folder / "transfer.png")


def _searched(
    problem: Problem, granted: int, *, queries: int, seed: int, value: CarriedValue | None = None
) -> tuple[QueryLedger, Transfer, Outcome]:
    oracle = problem.oracle(queries=granted)
    recipe = Recipe(start_steps=10, candidates=40, rows=100) if queries < 50 else Recipe()
    transfer = Transfer(oracle.task, recipe, value, queries=queries)
    outcome, _ = propose(oracle, queries=granted, recipe=recipe, seed=seed, transfer=transfer)
    return oracle.ledger, transfer, outcome


def _refused(ground: Ground, value: CarriedValue | None) -> str:
    if value is None or value.kind is None:
        return ""
    return obstacle(value, place_of(ground.problem.task(), rows=_rows(value)), value.kind)


def _rows(value: CarriedValue) -> int:
    """Rows that the first search looked at."""
    return 100 if value.outputs.shape[1] <= 100 else Recipe().rows


def _test_gain(problem: Problem, phi: Tensor) -> float:
    before, after = problem.costs(torch.stack([torch.zeros_like(phi), phi]), "test").tolist()
    return before - after
