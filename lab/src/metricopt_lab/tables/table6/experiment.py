"""Table 6 of the paper: AP50 of a Faster R-CNN, as trained and where images have shifted."""

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import final

import torch
from torch import Tensor

from metricopt.acceptance.comparison import Comparison
from metricopt.acceptance.judge import Judge
from metricopt.core.errors import MetricOptWarning
from metricopt.metrics.detection import BoxPrecision
from metricopt_lab.cells import EXPERIMENTS, Record, ScaledCell, ScaledExperiment
from metricopt_lab.data.bccd import SOURCE, fingerprint
from metricopt_lab.problems.detection import FOLDS, Detection, detection
from metricopt_lab.problems.microscope_shifts import SHIFTS
from metricopt_lab.tables.table6.methods import BUDGETS, LOSSES, METHODS, Budget, Proposal
from metricopt_lab.tables.table6.plot import draw_gains
from metricopt_lab.tables.table6.text import CONDITIONS, table6_text

LOSSES_VERSION = 1
"""Of the rows that are neither a rival nor MetricOpt; to be bumped with any change of their results."""

RESAMPLES = 400
"""Of a fold's test images, the same ones for every method, so that differences are paired."""


@EXPERIMENTS.add("table6")
@final
class Table6(ScaledExperiment[Detection]):
    """The paper's Table 6: AP50 of a Faster R-CNN, as trained and under shifts of the images."""

    scales = tuple(BUDGETS)
    data_kind = "condition"

    def usual_data(self) -> Sequence[str]:
        """All of them; to see that it runs, one shift does."""
        return ["pixel_noise"] if self.settings.scale == "smoke" else self.known_data()

    def known_data(self) -> Sequence[str]:
        """The conditions."""
        return list(SHIFTS)

    def cells(self) -> list[ScaledCell]:
        """Every method for every condition and fold."""
        return [
            ScaledCell(self.settings.scale, condition, "plain", seed, "ap50", method)
            for condition in self.data()
            for seed in range(self.settings.seeds)
            for method in METHODS
        ]

    def ground(self, first: ScaledCell) -> Detection:
        """The detector and the images of a fold under a condition."""
        return detection(first.scale, first.data, first.seed)

    def measure(self, ground: Detection, cell: ScaledCell) -> Record:
        """What a method gives on the fold's test images."""
        return _measured(ground, BUDGETS[cell.scale], cell)

    def version_of(self, method: str) -> int:
        """Losses and the original, which are rows of this table alone, have a version of their own."""
        return LOSSES_VERSION if method in LOSSES else super().version_of(_rival_of(method))

    def text(self, records: Sequence[Record]) -> str:
        """Test values, paired gains, MetricOpt against each rival, the health of the value function, notes."""
        return table6_text(records)

    def draw(self, records: Sequence[Record], folder: Path) -> None:
        """Gains of all methods under each condition."""
        draw_gains(records, folder / "table6.png")


def _rival_of(method: str) -> str:
    return "post_shift" if method == "score_tuning" else method


def _measured(problem: Detection, budget: Budget, cell: ScaledCell) -> Record:
    began = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MetricOptWarning)
        proposal: Proposal = METHODS[cell.method](problem, budget)
    seconds = time.process_time() - began
    pair = torch.stack([torch.zeros_like(proposal.phi), proposal.phi])
    held = proposal.held or _judged(problem, pair)
    found = [problem.found(phi, problem.test) for phi in pair]
    truth, precision = problem.test.targets, BoxPrecision((0.5,))
    rows = torch.randint(len(truth), (RESAMPLES, len(truth)), generator=torch.Generator().manual_seed(cell.seed))
    values = [problem.metric.by_rows(each, truth) for each in found]
    gains = values[1](rows) - values[0](rows)
    before, after = (precision.by_class(truth, each) for each in found)
    everything = torch.arange(len(truth))[None]
    return {
        "goal": "max",
        "before": float(values[0](everything)),
        "after": float(values[1](everything)),
        "gain": float(values[1](everything) - values[0](everything)),
        "resampled_gains": [round(gain, 5) for gain in gains.nan_to_num().tolist()],
        "classes": {problem.pictures.classes[label]: [before[label], after[label]] for label in before},
        "search": [problem.metric.value(problem.found(phi, problem.search), problem.search.targets) for phi in pair],
        "images": [len(problem.search), len(problem.accept), len(problem.test)],
        "accepted": held.accepted,
        "accept_interval": list(held.interval),
        "queries": proposal.queries,
        "budget": budget.queries,
        "seconds": seconds,
        "rank_correlation": proposal.rank_correlation,
        "warnings": sorted({str(warning.message) for warning in caught}),
        "fingerprint": fingerprint(),
        "problem": f"{SOURCE}; {CONDITIONS[cell.data]}; fold {cell.seed % FOLDS} of {FOLDS}",
    }


def _judged(problem: Detection, pair: Tensor) -> Comparison:
    judge = Judge(problem.model, problem.accept, seed=problem.seed)
    for phi in pair:
        judge.know(phi, problem.found(phi, problem.accept), whole=True)
    return judge.compare(problem.metric, pair)
