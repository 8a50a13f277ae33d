"""Figure S2 of the paper: surfaces of the train loss and the test metric on a plane through solutions of methods."""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import torch
from torch import Tensor

from metricopt.core.errors import FlatValueWarning
from metricopt.data.dataset import Examples
from metricopt.losses import cross_entropy
from metricopt_lab.cells import EXPERIMENTS, Record, ScaledCell, ScaledExperiment
from metricopt_lab.data.cifar10 import FINGERPRINT
from metricopt_lab.figures.figure_s2.plot import draw_surfaces
from metricopt_lab.figures.figure_s2.text import SOLUTIONS, figure_s2_text
from metricopt_lab.problems import Problem
from metricopt_lab.problems.cifar import CIFAR_SCALES
from metricopt_lab.problems.cifar_tails import cifar_tail
from metricopt_lab.tables.cifar.methods import ADVANCED, BUDGETS, Bench, Proposal
from metricopt_lab.tables.cifar.table import LOSSES_VERSION

NETWORK, SURFACE = "small_convnet", "surface"
CORNERS = ("ce", "aucpr", "metricopt")
"""Solutions that span the plane: the pre-trained network, the loss made for the metric, and the default search."""

SIDE = {"smoke": 4, "small": 25, "paper": 51}
"""Points along a side of the grid."""
TRAIN = {"smoke": 200, "small": 3_000, "paper": 10_000}
"""Training images of the loss surface."""
MARGIN = 0.3


@dataclass(frozen=True)
class Plane:
    """A plane in the space of phi.

    Attributes:
        origin: A point of it, (dim,).
        basis: Two orthonormal directions, (2, dim).

    Example:
        >>> plane = Plane.through(torch.eye(3)[0], torch.tensor([3.0, 0.0, 0.0]), torch.tensor([1.0, 2.0, 0.0]))
        >>> plane.coordinates(torch.tensor([[2.0, 4.0, 7.0]]))
        tensor([[1., 4.]])
        >>> plane.distances(torch.tensor([[2.0, 4.0, 7.0]]))
        tensor([7.])
    """

    origin: Tensor
    basis: Tensor

    @classmethod
    def through(cls, first: Tensor, second: Tensor, third: Tensor) -> "Plane":
        """The plane through three points; its first direction leads from the first to the second one."""
        along = (second - first) / (second - first).norm()
        across = third - first - (third - first).dot(along) * along
        return cls(first, torch.stack([along, across / across.norm()]))

    def coordinates(self, points: Tensor) -> Tensor:
        """Of the nearest points of the plane, (n, 2)."""
        return (points - self.origin) @ self.basis.T

    def points(self, coordinates: Tensor) -> Tensor:
        """Points by their coordinates (n, 2), (n, dim)."""
        return self.origin + coordinates @ self.basis

    def distances(self, points: Tensor) -> Tensor:
        """How far points are off the plane, (n,)."""
        return (points - self.points(self.coordinates(points))).norm(dim=1)


@EXPERIMENTS.add("figureS2")
@final
class FigureS2(ScaledExperiment["Ground"]):
    """The paper's Figure S2: train loss and test AUCPR on a plane through the solutions of several methods."""

    scales = tuple(CIFAR_SCALES)
    needs_cifar10 = True

    def cells(self) -> list[ScaledCell]:
        """A cell a solution and one for the surfaces, for each seed."""
        return self.every_method(NETWORK, "aucpr", (*SOLUTIONS, SURFACE))

    def ground(self, first: ScaledCell) -> "Ground":
        """Solutions are kept in it for the surface, which comes last."""
        return Ground(first.scale, first.seed)

    def measure(self, ground: "Ground", cell: ScaledCell) -> Record:
        """A solution, or both surfaces."""
        began = time.perf_counter()
        return {
            **(ground.surface() if cell.method == SURFACE else ground.numbers(cell.method)),
            "seconds": time.perf_counter() - began,
            "problem": ground.problem.notes,
            "fingerprint": FINGERPRINT,
        }

    def version_of(self, method: str) -> int:
        """As in Table 2, which has the same solutions; the surface goes through that of the default search."""
        return LOSSES_VERSION if method in Bench.losses(ADVANCED[NETWORK]) else super().version_of(method)

    def text(self, records: Sequence[Record]) -> str:
        """Loss and metric at each solution, how far each is off the plane, and the extremes of the surfaces."""
        return figure_s2_text(records)

    def draw(self, records: Sequence[Record], folder: Path) -> None:
        """Both surfaces side by side, of the first seed."""
        surfaces = [record for record in records if record["method"] == SURFACE]
        if surfaces:
            draw_surfaces(surfaces[0], folder / "figureS2.png")


@final
class Ground:
    """A problem, the solutions found so far, and the two heights of any phi."""

    def __init__(self, scale: str, seed: int) -> None:
        self.scale = scale
        self.problem = cifar_tail(NETWORK, scale=scale, seed=seed)
        self.bench = Bench(self.problem, BUDGETS[scale], ADVANCED[NETWORK])
        train = self.problem.train
        rows = slice(TRAIN[scale])
        # The metric's place is taken by training images, so that a problem of the same network gives their outputs.
        self._trained: Problem = replace(self.problem, search=Examples(train.inputs[rows], train.targets[rows]))
        self._found: dict[str, Proposal] = {}

    def solution(self, method: str) -> Proposal:
        """What a method proposes, computed once."""
        if method not in self._found:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FlatValueWarning)  # the correlation is in the table
                self._found[method] = self.bench.methods[method]()
        return self._found[method]

    def heights(self, phi: Tensor) -> tuple[Tensor, Tensor]:
        """Cross-entropy on training images and 1 - AUCPR on test images of vectors (n, dim), each (n,)."""
        truth = self._trained.search.targets
        losses = [cross_entropy(self._trained.outputs(one[None], "search")[0], truth) for one in phi]
        return torch.stack(losses), self.problem.costs(phi, "test")

    def numbers(self, method: str) -> Record:
        """Both heights of a solution, its length and what it took."""
        found = self.solution(method)
        loss, cost = self.heights(found.phi[None])
        return {
            "train_loss": float(loss),
            "test_cost": float(cost),
            "length": float(found.phi.norm()),
            "queries": found.queries,
            "rank_correlation": found.rank_correlation,
        }

    def surface(self) -> Record:
        """Both heights on a grid of the plane, and where on it the solutions are, or what of them is nearest."""
        plane = Plane.through(*(self.solution(method).phi for method in CORNERS))
        phi = torch.stack([self.solution(method).phi for method in SOLUTIONS])
        places = plane.coordinates(phi)
        axes = [_span(places[:, i], SIDE[self.scale]) for i in (0, 1)]
        rows = torch.stack(torch.meshgrid(axes[1], axes[0], indexing="ij"), -1).flatten(0, 1).flip(1)  # (n, [x, y])
        loss, cost = self.heights(plane.points(rows))
        on_plane = self.heights(plane.points(places))
        return {
            "queries": 0,
            "x": _rounded(axes[0]),
            "y": _rounded(axes[1]),
            "train_loss": [_rounded(row) for row in loss.reshape(len(axes[1]), -1)],
            "test_cost": [_rounded(row) for row in cost.reshape(len(axes[1]), -1)],
            "solutions": {
                method: {"place": _rounded(places[i]), "off_plane": float(plane.distances(phi)[i]),
                         "train_loss_on_plane": float(on_plane[0][i]), "test_cost_on_plane": float(on_plane[1][i])}
                for i, method in enumerate(SOLUTIONS)
            },
        }  # fmt: skip


def _span(values: Tensor, count: int) -> Tensor:
    low, high = float(values.min()), float(values.max())
    return torch.linspace(low - MARGIN * (high - low), high + MARGIN * (high - low), count)


def _rounded(values: Tensor) -> list[float]:
    return [round(value, 5) for value in values.tolist()]
