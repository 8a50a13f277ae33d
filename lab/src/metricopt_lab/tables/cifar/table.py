"""Tables 1 and 2 of the paper: error rate and area under precision and recall on CIFAR-10."""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from metricopt.acceptance.climb import compare
from metricopt.core.errors import MetricOptWarning
from metricopt.core.seeding import stream
from metricopt.crossfit.settings import CROSSFIT_VERSION
from metricopt.paper.preset import PAPER_VERSION
from metricopt.task.answers import resampled_costs
from metricopt_lab.cells import Record, ScaledCell, ScaledExperiment
from metricopt_lab.data.cifar10 import FINGERPRINT
from metricopt_lab.optimizers.own import OWN_VERSION
from metricopt_lab.problems import Problem, cifar
from metricopt_lab.problems.cifar import CIFAR_SCALES
from metricopt_lab.rivals.published.paces import paces_of, told
from metricopt_lab.tables.cifar.methods import ADVANCED, LEARNED, Bench, Proposal, budget_of
from metricopt_lab.tables.cifar.plot import draw_gains
from metricopt_lab.tables.cifar.text import table_text
from metricopt_lab.tables.claims import PRESETS

LOSSES_VERSION = 1
"""Of the rows that are neither a rival nor MetricOpt; to be bumped with any change of their results."""

RESAMPLES = 200
"""Of the test images, the same ones for every method and seed, so that differences are paired."""


@dataclass(frozen=True)
class Ground:
    """One adapted network, and one cache, for all methods of a seed; test costs of the original, resampled."""

    bench: Bench
    original: Tensor
    device: str


class CifarTable(ScaledExperiment[Ground]):
    """Every method for every seed of the finetuning, all from one pre-trained network."""

    scales = tuple(CIFAR_SCALES)
    needs_cifar10 = True
    number: ClassVar[int]
    network: ClassVar[str]
    metric: ClassVar[str]

    def cells(self) -> list[ScaledCell]:
        """Every method for every seed; the split of the validation images goes by the seed too."""
        return self.every_method(self.network, self.metric, Bench.rows(ADVANCED[self.network]))

    def ground(self, first: ScaledCell) -> Ground:
        """The network of a seed; on a GPU if there is one."""
        device = "cuda" if torch.cuda.is_available() else "cpu"
        problem = cifar(self.network, scale=first.scale, seed=first.seed, device=device)
        bench = Bench(problem, budget_of(self.network, first.scale), ADVANCED[self.network], paces_of(self.network))
        return Ground(bench, _resampled(problem, torch.zeros(problem.task().dim)), device)

    def measure(self, ground: Ground, cell: ScaledCell) -> Record:
        """What a method gives on test images."""
        measured = _measured(ground.bench, cell.method, ground.original)
        return {**measured, "fingerprint": FINGERPRINT, "device": ground.device}

    def made_by(self, cell: ScaledCell) -> Record:
        """The version of the method and, of a published rival, its pace."""
        return {**super().made_by(cell), **told(self.network, cell.method)}

    def version_of(self, method: str) -> int:
        """Of rows that no search changes their own; of the losses and the original, rows of these tables alone, too."""
        own = {
            **dict.fromkeys(Bench.losses(ADVANCED[self.network]), LOSSES_VERSION),
            **dict.fromkeys(PRESETS, PAPER_VERSION),
            **dict.fromkeys(LEARNED, OWN_VERSION),
            "optimize": CROSSFIT_VERSION,
        }
        return own[method] if method in own else super().version_of(method)

    def text(self, records: Sequence[Record]) -> str:
        """Test values, paired gains with what test images can resolve, MetricOpt against each rival, notes."""
        return table_text(self.number, records)

    def draw(self, records: Sequence[Record], folder: Path) -> None:
        """Gains of all methods with their intervals."""
        draw_gains(self.number, records, folder / f"table{self.number}.png")


def _measured(bench: Bench, method: str, original: Tensor) -> dict[str, Any]:
    problem, metric = bench.problem, bench.problem.metric
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MetricOptWarning)
        proposal: Proposal = bench.methods[method]()
    seconds = time.perf_counter() - began
    there = proposal.where or problem
    pair = (problem, torch.zeros(1, problem.task().dim)), (there, proposal.phi[None])
    held = proposal.held or compare(
        metric,
        [one.outputs(phi, "accept")[0] for one, phi in pair],
        problem.accept,
        generator=stream(bench.seed, "accept"),
    )
    before, after = (float(one.costs(phi, "test")) for one, phi in pair)
    searched = [float(one.costs(phi, "search")) for one, phi in pair]
    resampled = original if method == "ce" else _resampled(there, proposal.phi)
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
    test = problem.test
    return resampled_costs(problem.metric, outputs, test.truth, rows=len(test), resamples=RESAMPLES, at_once=20)
