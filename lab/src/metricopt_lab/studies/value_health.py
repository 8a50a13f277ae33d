"""Whether value functions tell anything: their rank correlation with observations they had not seen."""

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import final

from metricopt.adapters import DynamicBias
from metricopt.api.propose import propose
from metricopt.core.errors import FlatValueWarning
from metricopt.metrics import METRICS
from metricopt.paper.settings import PAPER_LETTER, Stages
from metricopt.paper.stages import learn_value_function
from metricopt.paper.training import Training
from metricopt_lab.cells import EXPERIMENTS, Record, ScaledCell, ScaledExperiment
from metricopt_lab.markdown import short, table
from metricopt_lab.problems import Problem
from metricopt_lab.problems.tabular_scales import SCALES, fingerprint, problem_at

MEASURE = {"a9a": "f1", "covtype2": "f1", "covtype7": "macro_f1"}
KINDS = {
    "search": "the default search's Gaussian process, on fifths of its queries held out",
    "network": "learn_value_function's network, default stages",
    "network_paper": "learn_value_function's network, the paper's stages",
}
FLAT = 0.2  # as in `metricopt.paper.diagnostics`
LEAST_QUERIES = 40  # four trajectories of five observations in each of two rounds


@EXPERIMENTS.add("value-health")
@final
class ValueHealth(ScaledExperiment[Problem]):
    """Rank correlation of the value functions, the default's and the paper's, with observations they had not seen."""

    scales = tuple(SCALES)

    def known_data(self) -> list[str]:
        """Those of the scale."""
        return list(SCALES[self.settings.scale].rows)

    def usual_data(self) -> list[str]:
        """Two of them."""
        return [name for name in ("a9a", "covtype7") if name in self.known_data()]

    def cells(self) -> list[ScaledCell]:
        """Three kinds of value function for each data set and seed."""
        return [
            ScaledCell(self.settings.scale, data, "balanced", seed, MEASURE[data], kind)
            for data in self.data()
            for seed in range(self.settings.seeds)
            for kind in KINDS
        ]

    def ground(self, first: ScaledCell) -> Problem:
        """One pre-trained network for all the cells."""
        metric = METRICS[first.metric]()
        return problem_at(first.scale, first.data, metric, sampling=first.sampling, seed=first.seed)

    def measure(self, ground: Problem, cell: ScaledCell) -> Record:
        """The health of one value function."""
        queries = max(LEAST_QUERIES, 2 * SCALES[cell.scale].queries)
        return {**_measured(ground, cell, queries), "fingerprint": fingerprint(cell.data)}

    def text(self, records: Sequence[Record]) -> str:
        """A row for each value function, and a loud line for each that is flat."""
        rows = [
            [r["data"], str(r["seed"]), r["metric"], KINDS[r["method"]], short(r["rank_correlation"], sign=True),
             str(r["queries"]), "FLAT" if r["flat"] else "tells something"]
            for r in records
        ]  # fmt: skip
        header = ["data", "seed", "metric", "value function", "rank correlation", "queries", "verdict"]
        loud = [f"FLAT: {r['data']}, seed {r['seed']}, {r['method']}: {r['remedy']}" for r in records if r["flat"]]
        title = f"# Value functions against observations they had not seen, scale {records[0]['scale']}"
        return "\n\n".join([title, table(header, rows), *loud]) + "\n"


def _measured(problem: Problem, cell: ScaledCell, queries: int) -> Record:
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        correlation, used = _correlation(problem, cell, queries)
    said = [str(warning.message) for warning in caught if issubclass(warning.category, FlatValueWarning)]
    advice = "predictions do not rank what was held out; query more often or give the metric more rows"
    return {
        "rank_correlation": correlation,
        "queries": used,
        "flat": bool(said) or not correlation >= FLAT,
        "remedy": said[0] if said else advice,
        "seconds": time.perf_counter() - began,
        "problem": problem.notes,
    }


def _correlation(problem: Problem, cell: ScaledCell, queries: int) -> tuple[float, int]:
    if cell.method == "search":
        oracle = problem.oracle(queries=queries)
        correlation = propose(oracle, queries=queries, seed=cell.seed)[1]
        return correlation, oracle.ledger.used
    stages = (_paper_stages if cell.method == "network_paper" else _default_stages)(cell.scale)
    where = replace(problem, adapter=DynamicBias(dim=16)) if cell.method == "network_paper" else problem
    oracle = where.oracle(queries=queries)
    learnt = learn_value_function(oracle, queries=queries, seed=cell.seed, stages=stages)
    return learnt.health.rank_correlation, oracle.ledger.used


def _paper_stages(scale: str) -> Stages:
    return replace(PAPER_LETTER.once if scale == "smoke" else PAPER_LETTER, lr=0.1)


def _default_stages(scale: str) -> Stages:
    # The smoke scale is to show that all runs, in seconds: one short round.
    return Stages(rounds=1, training=Training(steps=50)) if scale == "smoke" else Stages()
