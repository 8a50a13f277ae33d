"""Which part of the recipe gains what: the default search and the paper's value network, one part changed at a time."""

import hashlib
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import final

import torch

from metricopt.api.propose import propose
from metricopt.core.errors import FlatValueWarning
from metricopt.metrics import METRICS
from metricopt.paper.settings import PAPER_LETTER, Stages
from metricopt.paper.stages import finetune, learn_value_function
from metricopt.paper.training import Training
from metricopt.search import Recipe
from metricopt_lab.cells import EXPERIMENTS, Record, ScaledCell, ScaledExperiment
from metricopt_lab.markdown import spread, table
from metricopt_lab.problems import Problem
from metricopt_lab.problems.adult import adult
from metricopt_lab.problems.covtype import covtype
from metricopt_lab.problems.tabular_scales import problem_at
from metricopt_lab.studies.ablation_plot import draw_ablation

QUERIES = {"smoke": 40, "small": 150, "paper": 500}

SEARCHES = {
    "default": Recipe(),
    "no-starts": Recipe(starts=False),
    "no-shifts": Recipe(shifts=False),
    "over-phi": Recipe(views=False),
    "no-descent": Recipe(descent=0),
    "not-whitened": Recipe(whiten=False),
    "no-group-gradients": Recipe(guided=False),
    "cautious": Recipe(caution=1.0),
    "no-evolution": Recipe(evolution=10**9),
}
"""The default search without one of its parts: `search.recipe` says what each is."""

OFFLINE = Stages(rounds=1)
NETWORKS = {
    "rounds": Stages(),
    "offline": OFFLINE,
    "offline-no-oe": replace(OFFLINE, training=Training(ordinal=0.0)),
    "offline-no-uncertainty": replace(OFFLINE, uncertainty=False),
    "offline-batch-norm": replace(OFFLINE, training=Training(norm="batch", members=1)),
    "reptile-no-norm": replace(OFFLINE, training=Training(scheme="reptile", norm="none")),
    "paper": replace(PAPER_LETTER, lr=0.1),
}
"""The value network as in the paper's Figure 3, by how it is trained."""

PLACES = {
    "covtype_shift_mcr": (SEARCHES, NETWORKS),
    "covtype7_macro_f1": (SEARCHES, {}),
    "adult_flipped_aucpr": (SEARCHES, {}),
    "a9a_balanced_f1": ({}, NETWORKS),
}
BUILDERS = {
    "covtype_shift_mcr": partial(covtype, metric="mcr", areas=(0, (2,))),
    "covtype7_macro_f1": partial(covtype, metric="macro_f1"),
    "adult_flipped_aucpr": partial(adult, data="adult_raw", metric="aucpr", flipped=0.3),
    "a9a_balanced_f1": partial(adult, data="adult_a9a", metric="f1", sampling="balanced"),
}
SMOKE = {"a9a": (dict(list(SEARCHES.items())[:2]), dict(list(NETWORKS.items())[:2]))}


@EXPERIMENTS.add("ablation")
@final
class Ablation(ScaledExperiment["Ground"]):
    """The default search and the value network with one part changed at a time (the paper's Figure 3)."""

    scales = ("smoke", "small", "paper")

    data_kind = "problem"

    def known_data(self) -> list[str]:
        """The problems of the scale."""
        return list(_places(self.settings.scale))

    def cells(self) -> list[ScaledCell]:
        """Every variant on each of its problems; the larger scale has more queries."""
        scale = self.settings.scale
        return [
            ScaledCell(scale, problem, "plain", seed, "search" if variant in SEARCHES else "network", variant)
            for problem in self.data()
            for seed in range(self.settings.seeds)
            for variants in _places(scale)[problem]
            for variant in variants
        ]

    def ground(self, first: ScaledCell) -> "Ground":
        """One pre-trained network for all the cells."""
        problem = _problem(first)
        zero = torch.zeros(1, problem.task().dim)
        return Ground(problem, float(problem.costs(zero, "test")[0]))

    def measure(self, ground: "Ground", cell: ScaledCell) -> Record:
        """What a variant gains on test data."""
        began = time.perf_counter()
        measured = (_search if cell.metric == "search" else _network)(ground.problem, cell)
        return {
            "queries": QUERIES[cell.scale],
            "test_before": ground.before,
            "gain": ground.before - measured["test_cost"],
            **measured,
            "seconds": time.perf_counter() - began,
            "problem": ground.problem.notes,
            "fingerprint": _fingerprint(ground.problem),
        }

    def text(self, records: Sequence[Record]) -> str:
        """A table of gains for the searches and one with errors and correlations for the networks."""
        parts = [f"# Ablations, {records[0]['queries']} metric queries, scale {records[0]['scale']}"]
        for kind, title in (("search", "Default search without one of its parts"), ("network", "Value network")):
            for problem in dict.fromkeys(r["data"] for r in records if r["metric"] == kind):
                some = [r for r in records if r["metric"] == kind and r["data"] == problem]
                parts += [f"## {title}: {problem}, pre-trained cost {fmean(r['test_before'] for r in some):.4f}"]
                parts += [_table(some)]
        return "\n\n".join(parts) + "\n"

    def draw(self, records: Sequence[Record], folder: Path) -> None:
        """Gains without one part, and what value networks gain against how they predict."""
        draw_ablation(records, folder / "ablation.png")


@dataclass(frozen=True)
class Ground:
    """A problem and its pre-trained network's cost on test data."""

    problem: Problem
    before: float


def _places(scale: str) -> Mapping[str, tuple[Mapping[str, Recipe], Mapping[str, Stages]]]:
    return SMOKE if scale == "smoke" else PLACES


def _problem(cell: ScaledCell) -> Problem:
    if cell.scale == "smoke":
        return problem_at("smoke", cell.data, METRICS["f1"](), sampling=cell.sampling, seed=cell.seed)
    return BUILDERS[cell.data](cell.data, seed=cell.seed)


def _fingerprint(problem: Problem) -> str:
    """Of the rows the metric is queried on."""
    return hashlib.sha256(problem.search.inputs.numpy().tobytes()).hexdigest()


def _search(problem: Problem, cell: ScaledCell) -> Record:
    queries = QUERIES[cell.scale]
    oracle = problem.oracle(queries=queries)
    outcome, correlation = propose(oracle, queries=queries, recipe=SEARCHES[cell.method], seed=cell.seed)
    cost = float(problem.costs(outcome.phi[None], "test")[0])
    return {"test_cost": cost, "rank_correlation": correlation, "prediction_error": None}


def _network(problem: Problem, cell: ScaledCell) -> Record:
    stages, queries = NETWORKS[cell.method], QUERIES[cell.scale]
    oracle = problem.oracle(queries=queries)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatValueWarning)  # the table shows it
        learnt = learn_value_function(oracle, queries=queries, seed=cell.seed, stages=stages)
    # One way of following for all, so that only the value functions differ.
    phi = finetune(oracle.task, learnt.value, seed=cell.seed, stages=Stages()).phi
    cost = float(problem.costs(phi[None], "test")[0])
    return {
        "test_cost": cost,
        "rank_correlation": learnt.health.rank_correlation,
        "prediction_error": learnt.health.error,
    }


def _table(records: Sequence[Record]) -> str:
    header = ["variant", "gain in cost on test", "rank correlation", "prediction error", "seeds"]
    rows = []
    for variant in dict.fromkeys(r["method"] for r in records):
        mine = [r for r in records if r["method"] == variant]
        errors = [r["prediction_error"] for r in mine if r["prediction_error"] is not None]
        rows.append([
            variant, spread([r["gain"] for r in mine], sign=True),
            spread([r["rank_correlation"] for r in mine], sign=True), spread(errors), str(len(mine)),
        ])  # fmt: skip
    return table(header, rows)
