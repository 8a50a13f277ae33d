"""Table 5 of the paper: recall at k of images of unseen classes."""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import torch
from torch import Tensor

from metricopt.acceptance.climb import compare
from metricopt.acceptance.comparison import Comparison
from metricopt.core.errors import MetricOptWarning
from metricopt.core.seeding import stream
from metricopt.crossfit.settings import ONE_RATE_VERSION
from metricopt.data.dataset import Examples
from metricopt.metrics import recall_at_k
from metricopt.metrics.resampling import ByClass
from metricopt.paper.preset import PAPER_VERSION
from metricopt_lab.cells import EXPERIMENTS, Record, ScaledCell, ScaledExperiment
from metricopt_lab.data.omniglot import fingerprint, omniglot
from metricopt_lab.problems.omniglot import STEPS, disturbed, omniglot_retrieval, unseen
from metricopt_lab.problems.problem import Problem
from metricopt_lab.problems.products import products_retrieval
from metricopt_lab.rivals import BASELINES
from metricopt_lab.tables.table5.changed import changed
from metricopt_lab.tables.table5.methods import BUDGETS, LOSSES, Bench, Budget, Proposal
from metricopt_lab.tables.table5.plot import draw_changed
from metricopt_lab.tables.table5.text import table5_text

CONDITIONS = ("clean", "salt", "blur", "thick")
"""Images as trained, and three kinds of disturbance."""
KS = (1, 10, 100, 1000)
RESAMPLES = 200
LOSSES_VERSION = 2
"""Of the rows that are neither a rival nor MetricOpt; to be bumped with any change of their results."""


@dataclass(frozen=True)
class Ground:
    """A problem, and the original's embeddings of the test images with its recall at each k by class."""

    bench: Bench
    embeddings: Tensor
    recalls: list[ByClass]


@EXPERIMENTS.add("table5")
@final
class Table5(ScaledExperiment[Ground]):
    """The paper's Table 5: recall at k of unseen classes, images as trained and disturbed, ours and the rivals'."""

    scales = tuple(BUDGETS)
    data_kind = "condition"

    def known_data(self) -> list[str]:
        """Images as trained, and disturbed ones; at the paper's scale its products as they are."""
        return list(CONDITIONS[:1] if self.settings.scale == "paper" else CONDITIONS)

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
        problem = _problem(first, budget)
        problem.keep("accept")
        problem.keep("test")
        original = problem.outputs(torch.zeros(1, problem.model.dim), "test")[0]
        return Ground(Bench(problem, budget), original, _recalls(problem, original))

    def measure(self, ground: Ground, cell: ScaledCell) -> Record:
        """What a method gives on images of unseen classes."""
        return _measured(ground, cell)

    def version_of(self, method: str) -> int:
        """Rows that are a loss alone have a version of their own, and so has the default, which is cross-fitted."""
        kind = method.partition(" ")[2]
        if kind == "metricopt":
            return 100 * ONE_RATE_VERSION
        if kind == "metricopt_paper":
            return PAPER_VERSION
        return super().version_of(method) if method in BASELINES or kind.startswith("metricopt") else LOSSES_VERSION

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
    "fast_ap labels_weights",
    "fast_ap metricopt",
    "cma_es",
    "snes",
    "fast_ap metricopt_adapter",
    "recall loss_only",
    "recall labels",
    "recall metricopt_adapter",
    "fast_ap dense",
    "fast_ap metricopt_paper",
    "recall metricopt_paper",
)
"""The rows, in the order they are measured; `Bench.methods` computes them. All weights follow FastAP only, for time."""

assert {method.split(" ")[0] for method in METHODS if " " in method} == set(LOSSES)


def _problem(cell: ScaledCell, budget: Budget) -> Problem:
    if cell.scale == "paper":
        return products_retrieval(budget.sizes, seed=cell.seed)
    return omniglot_retrieval(cell.data, budget.sizes, seed=cell.seed, steps=20 if cell.scale == "smoke" else STEPS)


def _measured(ground: Ground, cell: ScaledCell) -> Record:
    bench, problem = ground.bench, ground.bench.problem
    began, spent = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MetricOptWarning)
        proposal: Proposal = bench.methods[cell.method]()
    seconds, cpu = time.perf_counter() - began, time.process_time() - spent
    held = _held(problem, proposal)
    embeddings = _embedded(problem, proposal)
    recalls = _recalls(problem, embeddings)
    before, after = (ground.recalls[0], recalls[0])
    units = len(before.sums)
    draws = torch.randint(units, (RESAMPLES, units), generator=stream(0, "table5", "test classes"))
    gains = after.values(draws) - before.values(draws)
    found: Record = {
        "ks": _ks(problem),
        "before": [_mean(each) for each in ground.recalls],
        "after": [_mean(each) for each in recalls],
        "gain": _mean(after) - _mean(before),
        "resampled_gains": [round(gain, 5) for gain in gains.tolist()],
        "test_standard_error": float(before.values(draws).std()),
        "accepted": None if held is None else held.accepted,
        "accept_interval": None if held is None else list(held.interval),
        "queries": proposal.queries,
        "budget": bench.budget.queries,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "rank_correlation": proposal.rank_correlation,
        "phi": [round(value, 5) for value in proposal.phi.tolist()],
        "warnings": sorted({str(warning.message) for warning in caught}),
        "fingerprint": problem.test.fingerprint() if cell.scale == "paper" else fingerprint(),
        "problem": problem.notes,
    }
    if cell.seed == 0 and cell.method == "fast_ap metricopt" and cell.scale != "paper":
        found["changed"] = changed(torch.stack([ground.embeddings, embeddings]), _images(ground.bench, cell.data))
    return found


def _images(bench: Bench, condition: str) -> Examples:
    """The test images themselves, disturbed as they are."""
    return disturbed(omniglot(), unseen(bench.budget.sizes), condition, seed=0, part="test")


def _held(problem: Problem, proposal: Proposal) -> Comparison | None:
    """The original against a proposal on classes that have not chosen it; nothing where there are none."""
    if proposal.held is not None or proposal.learnt_all:
        return proposal.held
    pair = torch.stack([torch.zeros_like(proposal.phi), proposal.phi])
    outputs = list(problem.outputs(pair, "accept"))
    return compare(problem.metric, outputs, problem.accept, generator=stream(problem.seed, "accept"))


def _embedded(problem: Problem, proposal: Proposal) -> Tensor:
    """Embeddings of the test images, (n, d)."""
    if proposal.net is None:
        return problem.outputs(proposal.phi[None], "test")[0]
    with torch.no_grad():
        return torch.cat([proposal.net(some) for some in problem.test.inputs.split(512)])


def _recalls(problem: Problem, embeddings: Tensor) -> list[ByClass]:
    """Recall at each k, by class."""
    return [recall_at_k(k).by_class(embeddings, problem.test.targets) for k in _ks(problem)]


def _mean(by_class: ByClass) -> float:
    return float(by_class.sums.sum() / by_class.counts.sum())


def _ks(problem: Problem) -> list[int]:
    return [k for k in KS if k < len(problem.test)]
