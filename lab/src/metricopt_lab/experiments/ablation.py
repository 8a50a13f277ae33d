"""Which part of the recipe gains what: the default search and the paper's value network, one part changed at a time."""

import hashlib
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from statistics import fmean
from typing import final

import torch

from metricopt.api.optimize import propose
from metricopt.core.errors import FlatValueWarning
from metricopt.metrics import METRICS
from metricopt.paper.stages import PAPER, Stages, finetune, learn_value_function
from metricopt.paper.training import Training
from metricopt.search import Recipe
from metricopt_lab.experiments.experiment import EXPERIMENTS, Cell, Experiment, Record, Settings, chosen
from metricopt_lab.experiments.markdown import spread, table
from metricopt_lab.experiments.provenance import provenance
from metricopt_lab.experiments.tabular_scales import problem_at
from metricopt_lab.problems import PROBLEMS, Problem

QUERIES = {"smoke": 40, "small": 150, "paper": 500}

SEARCHES = {
    "default": Recipe(),
    "no-starts": Recipe(starts=False),
    "no-shifts": Recipe(shifts=False),
    "over-phi": Recipe(views=False),
    "no-descent": Recipe(descent=0),
    "not-whitened": Recipe(whiten=False),
    "no-group-gradients": Recipe(guided=False),
    "incautious": Recipe(caution=0.0),
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
    "paper": PAPER,
}
"""The value network as in the paper's Figure 3, by how it is trained."""

PLACES = {
    "covtype_shift_mcr": (SEARCHES, NETWORKS),
    "covtype7_macro_f1": (SEARCHES, {}),
    "adult_flipped_aucpr": (SEARCHES, {}),
    "a9a_balanced_f1": ({}, NETWORKS),
}
SMOKE = {"a9a": (dict(list(SEARCHES.items())[:2]), dict(list(NETWORKS.items())[:2]))}


@EXPERIMENTS.add("ablation")
@final
class Ablation(Experiment):
    """The default search and the value network with one part changed at a time (the paper's Figure 3)."""

    scales = ("smoke", "small", "paper")

    def cells(self, settings: Settings) -> list[Cell]:
        """Every variant on each of its problems; the larger scale has more queries."""
        places = SMOKE if settings.scale == "smoke" else PLACES
        return [
            Cell(settings.scale, problem, "plain", seed, "search" if variant in SEARCHES else "network", variant)
            for problem in chosen(settings.data, tuple(places), kind="problem")
            for seed in range(settings.seeds)
            for variants in places[problem]
            for variant in variants
        ]

    def measure(self, cells: Sequence[Cell]) -> Iterator[Record]:
        """One pre-trained network for all the cells."""
        problem = _problem(cells[0])
        before = float(problem.costs(torch.zeros(1, problem.task(queries=None).dim), "test")[0])
        for cell in cells:
            began = time.perf_counter()
            measured = _search(problem, cell) if cell.metric == "search" else _network(problem, cell)
            gain = before - measured["test_cost"]
            seconds = time.perf_counter() - began
            yield {**asdict(cell), "queries": QUERIES[cell.scale], "test_before": before, "gain": gain, **measured,
                   "seconds": seconds, "problem": problem.notes, "fingerprint": _fingerprint(problem),
                   "versions": provenance()}  # fmt: skip

    def text(self, records: Sequence[Record]) -> str:
        """A table of gains for the searches and one with errors and correlations for the networks."""
        parts = [f"# Ablations, {records[0]['queries']} metric queries, scale {records[0]['scale']}"]
        for kind, title in (("search", "Default search without one of its parts"), ("network", "Value network")):
            for problem in dict.fromkeys(r["data"] for r in records if r["metric"] == kind):
                some = [r for r in records if r["metric"] == kind and r["data"] == problem]
                parts += [f"## {title}: {problem}, pre-trained cost {fmean(r['test_before'] for r in some):.4f}"]
                parts += [_table(some)]
        return "\n\n".join(parts) + "\n"


def _problem(cell: Cell) -> Problem:
    if cell.scale == "smoke":
        return problem_at("smoke", cell.data, METRICS["f1"](), sampling=cell.sampling, seed=cell.seed)
    return PROBLEMS[cell.data].build(seed=cell.seed)


def _fingerprint(problem: Problem) -> str:
    """Of the rows the metric is queried on."""
    return hashlib.sha256(problem.search.inputs.numpy().tobytes()).hexdigest()


def _search(problem: Problem, cell: Cell) -> Record:
    queries = QUERIES[cell.scale]
    task = problem.task(queries=queries)
    outcome, correlation = propose(task, queries=queries, recipe=SEARCHES[cell.method], seed=cell.seed)
    cost = float(problem.costs(outcome.phi[None], "test")[0])
    return {"test_cost": cost, "rank_correlation": correlation, "prediction_error": None}


def _network(problem: Problem, cell: Cell) -> Record:
    stages, queries = NETWORKS[cell.method], QUERIES[cell.scale]
    task = problem.task(queries=queries)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatValueWarning)  # the table shows it
        learnt = learn_value_function(task, queries=queries, seed=cell.seed, stages=stages)
    # One way of following for all, so that only the value functions differ.
    phi = finetune(task, learnt.value, seed=cell.seed, stages=Stages()).phi
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
