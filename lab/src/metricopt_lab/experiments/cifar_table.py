"""Tables 1 and 2 of the paper: error rate and area under precision and recall on CIFAR-10."""

import time
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from metricopt.acceptance.bootstrap import compare
from metricopt.core.errors import MetricOptWarning
from metricopt.core.seeding import stream
from metricopt.task.answers import resampled_costs
from metricopt_lab.data.cifar10 import FINGERPRINT
from metricopt_lab.experiments.cifar_methods import ADVANCED, Bench, Proposal, budget_of
from metricopt_lab.experiments.cifar_text import draw_gains, table_text
from metricopt_lab.experiments.experiment import EXPERIMENTS, Cell, Experiment, Record, Settings, every_method
from metricopt_lab.experiments.provenance import provenance
from metricopt_lab.problems import Problem, cifar
from metricopt_lab.problems.cifar import CIFAR_SCALES

RESAMPLES = 200
"""Of the test images, the same ones for every method and seed, so that differences are paired."""


class CifarTable(Experiment):
    """Every method for every seed of the finetuning, all from one pre-trained network."""

    scales = tuple(CIFAR_SCALES)
    needs_cifar10 = True
    number: ClassVar[int]
    network: ClassVar[str]

    @property
    @abstractmethod
    def metric(self) -> str:
        """Name of the metric in keys."""

    def cells(self, settings: Settings) -> list[Cell]:
        """Every method for every seed; the split of the validation images goes by the seed too."""
        return every_method(settings, self.network, self.metric, Bench.rows(ADVANCED[self.network]))

    def measure(self, cells: Sequence[Cell]) -> Iterator[Record]:
        """One adapted network, and one cache, for all methods of a seed."""
        first = cells[0]
        device = "cuda" if torch.cuda.is_available() else "cpu"
        problem = cifar(self.network, scale=first.scale, seed=first.seed, device=device)
        bench = Bench(problem, budget_of(self.network, first.scale), ADVANCED[self.network])
        original = _resampled(problem, torch.zeros(problem.task(queries=0).dim))
        for cell in cells:
            yield {
                **asdict(cell),
                **_measured(bench, cell.method, original),
                "fingerprint": FINGERPRINT,
                "versions": provenance(),
                "device": device,
            }

    def text(self, records: Sequence[Record]) -> str:
        """Test values, paired gains with what test images can resolve, MetricOpt against each rival, notes."""
        return table_text(self.number, records)

    def draw(self, records: Sequence[Record], folder: Path) -> None:
        """Gains of all methods with their intervals."""
        draw_gains(self.number, records, folder / f"table{self.number}.png")


@EXPERIMENTS.add("table1")
@final
class Table1(CifarTable):
    """The paper's Table 1: error rate of ResNet-32 on CIFAR-10, ours and the rivals' beside the published."""

    number, network = 1, "resnet32"

    @property
    def metric(self) -> str:
        """Name of the metric in keys."""
        return "mcr"


@EXPERIMENTS.add("table2")
@final
class Table2(CifarTable):
    """The paper's Table 2: AUCPR of a small network on CIFAR-10, ours and the rivals' beside the published."""

    number, network = 2, "small_convnet"

    @property
    def metric(self) -> str:
        """Name of the metric in keys."""
        return "aucpr"


def _measured(bench: Bench, method: str, original: Tensor) -> dict[str, Any]:
    problem, metric = bench.problem, bench.problem.metric
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MetricOptWarning)
        proposal: Proposal = bench.methods[method]()
    seconds = time.perf_counter() - began
    pair = torch.stack([torch.zeros_like(proposal.phi), proposal.phi])
    held = proposal.held or compare(
        metric, list(problem.outputs(pair, "accept")), problem.accept, generator=stream(bench.seed, "accept")
    )
    before, after = problem.costs(pair, "test").tolist()
    searched = problem.costs(pair, "search").tolist()
    resampled = original if method == "ce" else _resampled(problem, proposal.phi)
    return {
        "goal": metric.goal,
        "before": metric.natural(before),
        "after": metric.natural(after),
        "gain": before - after,
        "resampled_gains": [round(gain, 6) for gain in (original - resampled).tolist()],
        "search_gain": searched[0] - searched[1],
        "test_standard_error": float(original.std()),
        "accepted": held.accepted,
        "accept_interval": list(held.interval),
        "queries": proposal.queries,
        "budget": bench.budget.queries,
        "seconds": seconds,
        "rank_correlation": proposal.rank_correlation,
        "warnings": sorted({str(warning.message) for warning in caught}),
        "problem": problem.notes,
    }


def _resampled(problem: Problem, phi: Tensor) -> Tensor:
    outputs = problem.outputs(phi[None], "test")[0]
    return resampled_costs(problem.metric, outputs, problem.test, resamples=RESAMPLES, at_once=20)
