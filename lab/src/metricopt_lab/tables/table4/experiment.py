"""Table 4 of the paper, on 64 classes of Tiny ImageNet in ImageNet's place."""

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import final

import torch

from metricopt.core.errors import MetricOptWarning
from metricopt.metrics import mcr, top_k_error
from metricopt.paper.preset import PAPER_VERSION
from metricopt.task.answers import resampled_costs
from metricopt_lab.cells import EXPERIMENTS, Record, ScaledCell, ScaledExperiment
from metricopt_lab.data.tiny_imagenet import SHA256
from metricopt_lab.tables.table4.methods import METHODS, Bench, Found
from metricopt_lab.tables.table4.plot import draw_gains
from metricopt_lab.tables.table4.scales import SCALES
from metricopt_lab.tables.table4.text import table4_text

LOSSES_VERSION = 2
"""Of the rows that follow losses; to be bumped with any change of their results."""

RESAMPLES = 200


@EXPERIMENTS.add("table4")
@final
class Table4(ScaledExperiment[Bench]):
    """The paper's Table 4: value functions carried to NASNet-A on other images, and the second run, beside losses."""

    scales = tuple(SCALES)
    needs_cifar10 = True

    def cells(self) -> list[ScaledCell]:
        """Every row for every seed."""
        return self.every_method("nasnet_a", "mcr", list(METHODS))

    def ground(self, first: ScaledCell) -> Bench:
        """The new task of a seed."""
        return Bench(first.scale, first.seed)

    def measure(self, ground: Bench, cell: ScaledCell) -> Record:
        """Top-1 and top-5 accuracy on test images, with those of the original."""
        began = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", MetricOptWarning)
            found = ground.methods[cell.method]()
        figures = _figures(ground, found)
        return {
            **figures,
            "queries": found.queries,
            "meta_queries": found.meta_queries,
            "rank_correlation": found.rank_correlation,
            "seconds": time.perf_counter() - began,
            "warnings": sorted({str(warning.message) for warning in caught}),
            "problem": ground.problem.notes,
            "fingerprint": SHA256,
        }

    def version_of(self, method: str) -> int:
        """The paper's stages, our search and the losses have versions of their own."""
        if method == "metricopt_search":
            return super().version_of(method)
        if method.endswith("_run"):
            return 100 * PAPER_VERSION + LOSSES_VERSION
        return PAPER_VERSION if method.startswith("metricopt") else LOSSES_VERSION

    def text(self, records: Sequence[Record]) -> str:
        """Top-1 and top-5 with paired gains, one verdict a claim, and notes."""
        return table4_text(records)

    def draw(self, records: Sequence[Record], folder: Path) -> None:
        """Gains of all rows with their intervals."""
        draw_gains(records, folder / "table4.png")


def _figures(bench: Bench, found: Found) -> Record:
    test, before = bench.problem.test, torch.zeros(1, bench.scale.dim)
    outputs = torch.stack([bench.problem.outputs(before, "test")[0], found.where.outputs(found.phi[None], "test")[0]])
    top1, top5 = (
        [1 - value for value in metric.values(outputs, test.targets).tolist()] for metric in (mcr(), top_k_error(5))
    )
    costs = [
        resampled_costs(mcr(), each, test.truth, rows=len(test), resamples=RESAMPLES, at_once=20) for each in outputs
    ]
    return {
        "goal": "max",
        "before": top1[0],
        "after": top1[1],
        "gain": top1[1] - top1[0],
        "top5_before": top5[0],
        "top5_after": top5[1],
        "resampled_gains": [round(gain, 6) for gain in (costs[0] - costs[1]).tolist()],
        "test_standard_error": float(costs[0].std()),
    }
