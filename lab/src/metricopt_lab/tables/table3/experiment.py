"""Table 3 of the paper: A9A and CoverType, misclassification rate, Jaccard index and F-measure."""

import time
import warnings
from collections.abc import Sequence
from typing import final

from torch import Tensor

from metricopt.acceptance.climb import compare
from metricopt.core.errors import MetricOptWarning
from metricopt.core.seeding import stream
from metricopt.data.dataset import Examples
from metricopt.metrics import METRICS, Metric
from metricopt.paper.preset import PAPER_VERSION
from metricopt_lab.cells import EXPERIMENTS, Record, ScaledCell, ScaledExperiment
from metricopt_lab.problems.tabular_scales import SCALES, fingerprint, problem_at
from metricopt_lab.rivals.published.paces import paces_of, told
from metricopt_lab.tables.claims import PRESETS
from metricopt_lab.tables.table3.methods import METHODS, Bench, Proposal
from metricopt_lab.tables.table3.text import table3_text

# The paper's JAC is accuracy, 1 - MCR: optimising one is optimising the other, so its column is read off the same runs.
MEASURES = ("mcr", "jaccard", "f1")

LOSSES_VERSION = 1
"""Of the rows that are neither a rival nor MetricOpt; to be bumped with any change of their results."""


@EXPERIMENTS.add("table3")
@final
class Table3(ScaledExperiment[Bench]):
    """The paper's Table 3: error, Jaccard and F on A9A and CoverType, ours and the rivals' beside the published."""

    scales = tuple(SCALES)

    def known_data(self) -> list[str]:
        """The paper's two, as far as the scale has them."""
        return [name for name in ("a9a", "covtype2") if name in SCALES[self.settings.scale].rows]

    def cells(self) -> list[ScaledCell]:
        """Every method for every metric, sampling, data set and seed."""
        scale = self.settings.scale
        measures = ("f1",) if scale == "smoke" else MEASURES
        return [
            ScaledCell(scale, data, sampling, seed, metric, method)
            for data in self.data()
            for sampling in SCALES[scale].samplings
            for seed in range(self.settings.seeds)
            for metric in measures
            for method in METHODS
        ]

    def ground(self, first: ScaledCell) -> Bench:
        """One pre-trained network for all the cells."""
        metric = METRICS[first.metric]()
        problem = problem_at(first.scale, first.data, metric, sampling=first.sampling, seed=first.seed)
        return Bench(problem, SCALES[first.scale].queries, paces_of(_tuned_on(first)))

    def measure(self, ground: Bench, cell: ScaledCell) -> Record:
        """What a method gives on test rows."""
        return {**_measured(ground, cell), "fingerprint": fingerprint(cell.data)}

    def made_by(self, cell: ScaledCell) -> Record:
        """The version of the method and, of a published rival, its pace."""
        return {**super().made_by(cell), **told(_tuned_on(cell), cell.method)}

    def version_of(self, method: str) -> int:
        """Losses on all weights, which are rows of this table alone, and the presets have versions of their own."""
        if method in PRESETS:
            return PAPER_VERSION
        return LOSSES_VERSION if method in ("ce", "lovasz", "cost_sensitive") else super().version_of(method)

    def text(self, records: Sequence[Record]) -> str:
        """Test values, paired gains, the health of the value function, and notes."""
        return table3_text(records)


def _tuned_on(cell: ScaledCell) -> str:
    """The data set whose paces count: they were tried with the paper's sampling, and with the other one none."""
    return cell.data if cell.sampling == "balanced" else ""


def _measured(bench: Bench, cell: ScaledCell) -> Record:
    metric, problem = METRICS[cell.metric](), bench.problem
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MetricOptWarning)
        proposal = METHODS[cell.method](bench, metric)
    seconds = time.perf_counter() - began
    accepted = proposal.held or compare(
        metric, _pair(bench, proposal, problem.accept), problem.accept, generator=stream(cell.seed, "accept")
    )
    before, after = (metric.value(each, problem.test.targets) for each in _pair(bench, proposal, problem.test))
    searched = [metric.value(each, problem.search.targets) for each in _pair(bench, proposal, problem.search)]
    return {
        "goal": metric.goal,
        "before": before,
        "after": after,
        "gain": _gain(metric, before, after),
        "search_before": searched[0],
        "search": searched[1],
        "accepted": accepted.accepted,
        "accept_interval": list(accepted.interval),
        "queries": proposal.queries,
        "budget": bench.queries,
        "seconds": seconds,
        "rank_correlation": proposal.rank_correlation,
        "warnings": sorted({str(warning.message) for warning in caught}),
        "problem": problem.notes,
    }


def _pair(bench: Bench, proposal: Proposal, data: Examples) -> tuple[Tensor, Tensor]:
    return METHODS["ce"](bench, bench.problem.metric).outputs(data.inputs), proposal.outputs(data.inputs)


def _gain(metric: Metric, before: float, after: float) -> float:
    return after - before if metric.goal == "max" else before - after
