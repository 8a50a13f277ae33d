"""Table 3 of the paper: A9A and CoverType, misclassification rate, Jaccard index and F-measure."""

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import final

from torch import Tensor

from metricopt.acceptance.bootstrap import compare
from metricopt.core.errors import MetricOptWarning
from metricopt.core.seeding import stream
from metricopt.data.dataset import Examples
from metricopt.metrics import METRICS, Metric
from metricopt_lab.experiments.experiment import EXPERIMENTS, Cell, Experiment, Record, Settings, chosen
from metricopt_lab.experiments.provenance import provenance
from metricopt_lab.experiments.table3_methods import METHODS, Bench, Proposal
from metricopt_lab.experiments.table3_text import table3_text
from metricopt_lab.experiments.tabular_scales import SCALES, fingerprint, problem_at

# The paper's JAC is accuracy, 1 - MCR: optimising one is optimising the other, so its column is read off the same runs.
MEASURES = ("mcr", "jaccard", "f1")


@EXPERIMENTS.add("table3")
@final
class Table3(Experiment):
    """The paper's Table 3: error, Jaccard and F on A9A and CoverType, ours and the rivals' beside the published."""

    scales = tuple(SCALES)

    def cells(self, settings: Settings) -> list[Cell]:
        """Every method for every metric, sampling, data set and seed."""
        scale = SCALES[settings.scale]
        known = [name for name in ("a9a", "covtype2") if name in scale.rows]
        measures = ("f1",) if settings.scale == "smoke" else MEASURES
        return [
            Cell(settings.scale, data, sampling, seed, metric, method)
            for data in chosen(settings.data, known, kind="data set")
            for sampling in scale.samplings
            for seed in range(settings.seeds)
            for metric in measures
            for method in METHODS
        ]

    def measure(self, cells: Sequence[Cell]) -> Iterator[Record]:
        """One pre-trained network for all the cells."""
        first = cells[0]
        problem = problem_at(first.scale, first.data, METRICS[first.metric](), sampling=first.sampling, seed=first.seed)
        bench = Bench(problem, SCALES[first.scale].queries)
        origin = fingerprint(first.data)
        for cell in cells:
            yield {**asdict(cell), **_measured(bench, cell), "fingerprint": origin, "versions": provenance()}

    def text(self, records: Sequence[Record]) -> str:
        """Test values, paired gains, the health of the value function, and notes."""
        return table3_text(records)


def _measured(bench: Bench, cell: Cell) -> Record:
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
