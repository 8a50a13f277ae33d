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
from metricopt.core.tree import Tree, each
from metricopt.crossfit.settings import DETECTOR_VERSION
from metricopt.metrics.detection import BoxPrecision
from metricopt.paper.preset import PAPER_VERSION
from metricopt_lab.cells import EXPERIMENTS, Record, ScaledCell, ScaledExperiment
from metricopt_lab.data.bccd import SOURCE, fingerprint
from metricopt_lab.data.voc import SOURCE as VOC
from metricopt_lab.problems.detection import FOLDS, Detection, detection
from metricopt_lab.problems.microscope_shifts import SHIFTS
from metricopt_lab.problems.voc_detection import YEARS, voc_detection
from metricopt_lab.tables.table6.methods import BUDGETS, LOSSES, MAIN, METHODS, Budget, Proposal
from metricopt_lab.tables.table6.plot import draw_gains
from metricopt_lab.tables.table6.text import CONDITIONS, table6_text

LOSSES_VERSION = 1
"""Of the rows that are neither a rival nor MetricOpt; to be bumped with any change of their results."""

FULL = ("as_trained", "pixel_noise")
"""Conditions under which all methods are run at scale small; under the others, for time, `MAIN` alone."""

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
        """The conditions; at the paper's scale its two training sets."""
        return list(YEARS if self.settings.scale == "paper" else SHIFTS)

    def cells(self) -> list[ScaledCell]:
        """Every method for every condition and fold; at scale small those of phi under two conditions, for time."""
        return [
            ScaledCell(self.settings.scale, condition, "plain", seed, "ap50", method)
            for seed in range(self.settings.seeds)
            for condition in self.data()
            for method in METHODS
            if method in MAIN or self.settings.scale != "small" or condition in FULL
        ]

    def ground(self, first: ScaledCell) -> Detection:
        """The detector and the images of a fold under a condition."""
        if first.scale == "paper":
            return voc_detection(first.data, first.seed)
        return detection(first.scale, first.data, first.seed)

    def measure(self, ground: Detection, cell: ScaledCell) -> Record:
        """What a method gives on the fold's test images."""
        return _measured(ground, BUDGETS[cell.scale], cell)

    def version_of(self, method: str) -> int:
        """Losses and the original, which are rows of this table alone, have a version of their own."""
        if method == "optimize":
            return DETECTOR_VERSION
        if method == "metricopt_paper":
            return PAPER_VERSION
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
    held = proposal.held or (None if proposal.net is not None else _judged(problem, pair))
    found = [problem.before, _found(problem, proposal)]
    truth, precision = problem.test.targets, BoxPrecision((0.5,))
    rows = torch.randint(len(truth), (RESAMPLES, len(truth)), generator=torch.Generator().manual_seed(cell.seed))
    values = [problem.metric.by_rows(one, truth) for one in found]
    gains = values[1](rows) - values[0](rows)
    before, after = (precision.by_class(truth, one) for one in found)
    everything = torch.arange(len(truth))[None]
    return {
        "goal": "max",
        "before": float(values[0](everything)),
        "after": float(values[1](everything)),
        "gain": float(values[1](everything) - values[0](everything)),
        "resampled_gains": [round(gain, 5) for gain in gains.nan_to_num().tolist()],
        "classes": {problem.pictures.classes[label]: [before[label], after[label]] for label in before},
        "search": _searched(problem, proposal, pair),
        "images": [len(problem.search), len(problem.accept), len(problem.test)],
        "accepted": None if held is None else held.accepted,
        "accept_interval": None if held is None else list(held.interval),
        "queries": proposal.queries,
        "budget": budget.queries,
        "seconds": seconds,
        "rank_correlation": proposal.rank_correlation,
        "warnings": sorted({str(warning.message) for warning in caught}),
        **origin(cell),
    }


def origin(cell: ScaledCell) -> Record:
    """What a record says of its images."""
    if cell.scale == "paper":
        return {"fingerprint": None, "problem": f"{VOC}; {CONDITIONS[cell.data]}; split {cell.seed} of val"}
    problem = f"{SOURCE}; {CONDITIONS[cell.data]}; fold {cell.seed % FOLDS} of {FOLDS}"
    return {"fingerprint": fingerprint(), "problem": problem}


def _found(problem: Detection, proposal: Proposal) -> Tree:
    """What is found in the test images, by a network in each on its own, as by phi."""
    if proposal.net is None:
        return problem.found(proposal.phi, problem.test)
    with torch.no_grad():
        return [each(Tensor.cpu, proposal.net([image.to(problem.model.like)])[0]) for image in problem.test.inputs]


def _searched(problem: Detection, proposal: Proposal, pair: Tensor) -> list[float] | None:
    """Values on the images that chose; out of fold where weights learnt from all of them, none if nothing chose."""
    if proposal.net is not None:
        return None if proposal.held is None else [proposal.held.before, proposal.held.after]
    return [problem.metric.value(problem.found(phi, problem.search), problem.search.targets) for phi in pair]


def _judged(problem: Detection, pair: Tensor) -> Comparison:
    judge = Judge(problem.model, problem.accept, seed=problem.seed)
    for phi in pair:
        judge.know(phi, problem.found(phi, problem.accept), whole=True)
    return judge.compare(problem.metric, pair)
