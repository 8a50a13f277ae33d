"""Table 5 of the paper: recall at k of images of unseen classes."""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import final

import torch
from torch import Tensor, nn

from metricopt.acceptance.judge import compare
from metricopt.core.errors import MetricOptWarning
from metricopt.core.seeding import stream
from metricopt.metrics import recall_at_k
from metricopt.task.answers import evaluator
from metricopt_lab.cells import EXPERIMENTS, Record, ScaledCell, ScaledExperiment
from metricopt_lab.data.omniglot import fingerprint
from metricopt_lab.problems.omniglot import omniglot_retrieval, trained_network
from metricopt_lab.problems.problem import Problem
from metricopt_lab.rivals import BASELINES
from metricopt_lab.tables.table5.changed import changed
from metricopt_lab.tables.table5.methods import BUDGETS, LOSSES, Bench, Proposal
from metricopt_lab.tables.table5.plot import draw_changed
from metricopt_lab.tables.table5.text import table5_text

CONDITIONS = ("clean", "salt", "blur", "thick")
"""Images as trained, and three kinds of disturbance."""
KS = (1, 10, 100, 1000)
RESAMPLES = 200
LOSSES_VERSION = 1
"""Of the rows that are neither a rival nor MetricOpt; to be bumped with any change of their results."""


@dataclass(frozen=True)
class Ground:
    """A problem and the original's recall@1 on resamples of the test classes."""

    bench: Bench
    original: Tensor


@EXPERIMENTS.add("table5")
@final
class Table5(ScaledExperiment[Ground]):
    """The paper's Table 5: recall at k of unseen classes, images as trained and disturbed, ours and the rivals'."""

    scales = tuple(BUDGETS)
    data_kind = "condition"

    def known_data(self) -> list[str]:
        """Images as trained, and disturbed ones."""
        return list(CONDITIONS)

    def cells(self) -> list[ScaledCell]:
        """Every method for every condition; the next seed once all conditions have one."""
        scale = self.settings.scale
        return [
            ScaledCell(scale, condition, "plain", seed, "recall@1", method)
            for seed in range(self.settings.seeds)
            for condition in self.data()
            for method in METHODS
        ]

    def ground(self, first: ScaledCell) -> Ground:
        """The parts of a seed and the network, which is the same for all."""
        budget = BUDGETS[first.scale]
        net = _network(20 if first.scale == "smoke" else 1000)
        problem = omniglot_retrieval(first.data, budget.sizes, seed=first.seed, net=net)
        return Ground(Bench(problem, budget), _resampled(problem, torch.zeros(problem.model.dim)))

    def measure(self, ground: Ground, cell: ScaledCell) -> Record:
        """What a method gives on images of unseen classes."""
        found = _measured(ground, cell)
        pictured = cell.seed == 0 and cell.method == "fast_ap metricopt"
        if pictured:
            problem = ground.bench.problem
            pair = torch.stack([torch.zeros(problem.model.dim), torch.tensor(found["phi"])])
            found["changed"] = changed(problem.outputs(pair, "test"), problem.test)
        return found

    def version_of(self, method: str) -> int:
        """Rows that are a loss alone have a version of their own."""
        if method in BASELINES or method.partition(" ")[2].startswith("metricopt"):
            return super().version_of(method)
        return LOSSES_VERSION

    def text(self, records: Sequence[Record]) -> str:
        """Recall at each k, paired gains, what test classes can resolve, published figures, notes."""
        return table5_text(records)

    def draw(self, records: Sequence[Record], folder: Path) -> None:
        """Queries whose answer changed, won and lost."""
        draw_changed(records, folder / "table5.png")


METHODS = (
    "original",
    "fast_ap loss_only",
    "fast_ap labels",
    "fast_ap metricopt",
    "recall loss_only",
    "recall labels",
    "recall metricopt",
    "cma_es",
    "snes",
    "fast_ap dense",
    "fast_ap metricopt_paper",
    "recall metricopt_paper",
)
"""The rows, in the order they are measured; `Bench.methods` computes them."""

assert {method.split(" ")[0] for method in METHODS if " " in method} == set(LOSSES)


@cache
def _network(steps: int) -> nn.Module:
    return trained_network(steps=steps)


def _measured(ground: Ground, cell: ScaledCell) -> Record:
    bench, problem = ground.bench, ground.bench.problem
    began, spent = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MetricOptWarning)
        proposal: Proposal = bench.methods[cell.method]()
    seconds, cpu = time.perf_counter() - began, time.process_time() - spent
    pair = torch.stack([torch.zeros_like(proposal.phi), proposal.phi])
    held = proposal.held or compare(
        problem.metric, list(problem.outputs(pair, "accept")), problem.accept, generator=stream(cell.seed, "accept")
    )
    before, after = problem.outputs(pair, "test")
    recalls = [[recall_at_k(k).value(each, problem.test.targets) for k in _ks(problem)] for each in (before, after)]
    gains = _resampled(problem, proposal.phi) - ground.original
    searched = problem.costs(pair, "search").tolist()
    return {
        "ks": _ks(problem),
        "before": recalls[0],
        "after": recalls[1],
        "gain": recalls[1][0] - recalls[0][0],
        "resampled_gains": [round(gain, 5) for gain in gains.tolist()],
        "test_standard_error": float(ground.original.std()),
        "search_gain": searched[0] - searched[1],
        "accepted": held.accepted,
        "accept_interval": list(held.interval),
        "queries": proposal.queries,
        "budget": bench.budget.queries,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "rank_correlation": proposal.rank_correlation,
        "phi": [round(value, 5) for value in proposal.phi.tolist()],
        "warnings": sorted({str(warning.message) for warning in caught}),
        "fingerprint": fingerprint(),
        "problem": problem.notes,
    }


def _ks(problem: Problem) -> list[int]:
    return [k for k in KS if k < len(problem.test)]


def _resampled(problem: Problem, phi: Tensor) -> Tensor:
    """Recall@1 on resamples of the test classes, the same ones for every phi, so that differences are paired."""
    outputs = problem.outputs(phi[None], "test")[0]
    values_on = evaluator(problem.metric, outputs, problem.test.truth)
    units = problem.metric.resampling.units(problem.test.truth, len(problem.test))
    return values_on(torch.randint(units, (RESAMPLES, units), generator=stream(0, "table5", "test classes")))
