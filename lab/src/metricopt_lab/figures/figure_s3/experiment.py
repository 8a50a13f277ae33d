"""Figure S3 of the paper: proposals and detections before and after; is the first stage another one then?"""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from metricopt.adapters.detector import PYRAMID, detect
from metricopt.api.detectors import detector_adapter
from metricopt.core.tree import each
from metricopt.crossfit.settings import DETECTOR_VERSION
from metricopt.losses.boxes import overlaps
from metricopt_lab.cells import EXPERIMENTS, Record, ScaledCell, ScaledExperiment
from metricopt_lab.figures.figure_s3.plot import draw_pictures, draw_recall
from metricopt_lab.figures.figure_s3.text import figure_s3_text
from metricopt_lab.problems.detection import Detection, detection
from metricopt_lab.problems.microscope_shifts import SHIFTS
from metricopt_lab.problems.voc_detection import YEARS, voc_detection
from metricopt_lab.tables.table6.experiment import origin
from metricopt_lab.tables.table6.methods import BUDGETS, METHODS, Proposal

OVERLAPS = (0.5, 0.6, 0.7, 0.8, 0.9)
PICTURES = 2
"""Test images whose boxes are recorded, the first ones."""
SHOWN, SURE = 30, 0.5
"""Proposals of an image that are recorded, and the score from which its detections are."""

WAYS = ("optimize", "metricopt_pyramid")
"""Weights behind the body, finetuned and chosen by AP50 out of fold; FiLM of the pyramid, searched by AP50 alone."""


@EXPERIMENTS.add("figureS3")
@final
class FigureS3(ScaledExperiment[Detection]):
    """The paper's Figure S3: proposals and detections before and after, and the recall of proposals."""

    scales = tuple(BUDGETS)
    data_kind = "condition"

    def usual_data(self) -> Sequence[str]:
        """A shift, under which there is much to see; at the paper's scale both training sets."""
        return list(YEARS) if self.settings.scale == "paper" else ["pixel_noise"]

    def known_data(self) -> Sequence[str]:
        """The conditions of Table 6."""
        return list(YEARS if self.settings.scale == "paper" else SHIFTS)

    def cells(self) -> list[ScaledCell]:
        """Both ways for every condition and fold."""
        return [
            ScaledCell(self.settings.scale, condition, "plain", seed, "ap50", way)
            for seed in range(self.settings.seeds)
            for condition in self.data()
            for way in WAYS[: 1 if self.settings.scale == "smoke" else None]
        ]

    def ground(self, first: ScaledCell) -> Detection:
        """The detector, FiLM on the outputs of its pyramid, and the images of a fold under a condition."""
        if first.scale == "paper":
            return voc_detection(first.data, first.seed, adapter=detector_adapter(PYRAMID))
        return detection(first.scale, first.data, first.seed, adapter=detector_adapter(PYRAMID))

    def measure(self, ground: Detection, cell: ScaledCell) -> Record:
        """Recall of the proposals and AP50 of the detections before and after, and boxes of some pictures."""
        began = time.process_time()
        way = "metricopt" if cell.method == "metricopt_pyramid" else cell.method
        proposal: Proposal = METHODS[way](ground, BUDGETS[cell.scale])
        seconds = time.process_time() - began
        found = [_found(ground, one) for one in (METHODS["frozen"](ground, BUDGETS[cell.scale]), proposal)]
        truth = ground.test.targets
        return {
            "recall": [[recall(one, truth, overlap) for overlap in OVERLAPS] for one in found],
            "overlaps": list(OVERLAPS),
            "ap50": [ground.metric.value(one, truth) for one in found],
            "pictures": [_picture(ground, [one[row] for one in found], row) for row in range(PICTURES)],
            "images": len(truth),
            "accepted": proposal.held is None or proposal.held.accepted,
            "queries": proposal.queries,
            "seconds": seconds,
            **origin(cell),
        }

    def version_of(self, method: str) -> int:
        """That of finetuning weights, or of the search."""
        return DETECTOR_VERSION if method == "optimize" else super().version_of(method)

    def text(self, records: Sequence[Record]) -> str:
        """Recall by overlap, before and after."""
        return figure_s3_text(records)

    def draw(self, records: Sequence[Record], folder: Path) -> None:
        """Curves of recall, and the pictures if the images are here."""
        draw_recall(records, folder / "figureS3.png")
        draw_pictures(records, folder / "figureS3_pictures.png")

    @property
    def pictures(self) -> tuple[str, ...]:
        """Curves and pictures."""
        return ("figureS3.png", "figureS3_pictures.png")


def recall(found: Sequence[Mapping[str, Tensor]], truth: Sequence[Mapping[str, Tensor]], overlap: float) -> float:
    """Share of the true boxes that some proposal overlaps so far.

    Example:
        >>> box = torch.tensor([[0.0, 0, 10, 10], [20.0, 20, 30, 30]])
        >>> recall([{"proposals": torch.tensor([[0.0, 0, 10, 8]])}], [{"boxes": box}], 0.7)
        0.5
    """
    best = [
        overlaps(target["boxes"], one["proposals"]).max(1).values
        for one, target in zip(found, truth, strict=True)
        if len(target["boxes"]) and len(one["proposals"])
    ]
    count = sum(len(target["boxes"]) for target in truth)
    return float((torch.cat(best) >= overlap).sum()) / max(1, count) if best else 0.0


def _found(problem: Detection, proposal: Proposal) -> list[dict[str, Tensor]]:
    """Detections of the test images with the proposals they come from."""
    net = proposal.net
    look = partial(problem.model.output, proposal.phi) if net is None else partial(detect, net)
    with torch.no_grad():
        return [each(Tensor.cpu, look([image.to(problem.model.like)])[0]) for image in problem.test.inputs]


def _picture(problem: Detection, found: Sequence[Mapping[str, Tensor]], row: int) -> dict[str, Any]:
    """Boxes of one test image, rounded: true ones, proposals, and detections of some score, before and after."""
    return {
        "name": problem.pictures.names[row],
        "truth": problem.test.targets[row]["boxes"].round().tolist(),
        "proposals": [one["proposals"][:SHOWN].round().tolist() for one in found],
        "detections": [one["boxes"][one["scores"] >= SURE].round().tolist() for one in found],
    }
