"""Figure S4 of the paper: what the value function learns from, how much of it, and of which parameters."""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, final

import torch
from torch import Tensor

from metricopt.adapters import Adapter, Biases, FiLM, LastLayer, OutputAffine
from metricopt.api.propose import propose
from metricopt.core.errors import FlatValueWarning
from metricopt.data.dataset import Examples
from metricopt.paper.settings import Stages
from metricopt.paper.stages import finetune, learn_value_function
from metricopt.paper.training import Training
from metricopt.search import Recipe
from metricopt_lab.cells import EXPERIMENTS, Record, ScaledCell, ScaledExperiment
from metricopt_lab.data.cifar10 import FINGERPRINT
from metricopt_lab.figures.figure_s4.plot import draw_panels
from metricopt_lab.figures.figure_s4.text import figure_s4_text
from metricopt_lab.problems import Problem
from metricopt_lab.problems.cifar import CIFAR_SCALES, NETWORKS
from metricopt_lab.problems.cifar_tails import cifar_tail
from metricopt_lab.rivals.descent import loss_path, train_batches

Input = Literal["film", "last biases", "all biases", "last layer"]
Kind = Literal["guided", "search", "loss"]


@dataclass(frozen=True)
class Variant:
    """The default with one thing changed.

    Attributes:
        source: Images the metric is taken on while learning.
        share: K, metric observations along a path, as a share of its T steps.
        input: Parameters that the value function is a function of.
        dim: Size of FiLM's part of them.

    Example:
        >>> VARIANTS["k-10"].share, VARIANTS["default"].dim
        (0.1, 128)
    """

    source: Literal["validation", "training"] = "validation"
    share: float = 0.05
    input: Input = "film"
    dim: int = 128

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Which methods the change concerns: the default search has no paths, a loss alone no metric."""
        if self.share != Variant.share:
            return ("guided",)
        return ("guided", "search") if self.source == "training" else ("guided", "search", "loss")


VARIANTS = {
    "default": Variant(),
    "training-images": Variant(source="training"),
    "k-2.5": Variant(share=0.025),
    "k-10": Variant(share=0.1),
    "k-100": Variant(share=1.0),
    "last-biases": Variant(input="last biases"),
    "all-biases": Variant(input="all biases"),
    "last-layer": Variant(input="last layer"),
    "d-32": Variant(dim=32),
    "d-64": Variant(dim=64),
    "d-256": Variant(dim=256),
    "d-512": Variant(dim=512),
}
"""What is measured, by name."""


@dataclass(frozen=True)
class Effort:
    """What a scale grants.

    Attributes:
        tasks: Trajectories, the same number for every K.
        stages: Both stages of the guided method, without K.
        recipe: The default search.

    Example:
        >>> EFFORTS["paper"].tasks, EFFORTS["paper"].stages.steps
        (500, 200)
    """

    tasks: int
    stages: Stages
    recipe: Recipe


# One round and phi_0 of unit variance as in the paper. The best of 28 settings of steps, rounds, rate,
# start_std and weight with 24 tasks, by the mean AUCPR on images that accept (small_convnet, seeds 100 and 101, start
# .287 and .294). At T = 120: start_std .3 with rates .05, .02, .01 gave .317/.311, .266/.279, .275/.282; start_std 1
# .267/.242, .250/.257, .268/.275; with 48 tasks and rate .02 .246/.250, for twice the time. Reptile with BatchNorm, the
# paper's, gives flat functions (docs/paper-notes.md), of which no ablation would tell anything.
LR = 0.02
_STAGES = Stages(steps=120, start_std=1.0, lr=LR, rounds=1)
EFFORTS = {
    "smoke": Effort(4, replace(_STAGES, steps=40, training=Training(steps=30)), Recipe(start_steps=20, rows=100)),
    "small": Effort(24, _STAGES, Recipe()),
    "paper": Effort(500, replace(_STAGES, steps=200), Recipe()),
}
"""What each scale grants."""


@EXPERIMENTS.add("figureS4")
@final
class FigureS4(ScaledExperiment["Ground"]):
    """The paper's Figure S4: images, observations, input and size of the value function, one changed at a time."""

    scales = tuple(CIFAR_SCALES)
    needs_cifar10 = True
    data_kind = "network"

    def known_data(self) -> list[str]:
        """Both networks."""
        return list(NETWORKS)

    def usual_data(self) -> list[str]:
        """ResNet-32, which takes ten times as long, is measured below the paper's scale if it is named."""
        return list(NETWORKS) if self.settings.scale == "paper" else ["small_convnet"]

    def cells(self) -> list[ScaledCell]:
        """Every variant with the methods it concerns."""
        return [
            ScaledCell(self.settings.scale, network, "plain", seed, kind, name)
            for network in self.data()
            for seed in range(self.settings.seeds)
            for name, variant in VARIANTS.items()
            for kind in variant.kinds
        ]

    def ground(self, first: ScaledCell) -> "Ground":
        """One network for all cells."""
        return Ground(cifar_tail(first.data, scale=first.scale, seed=first.seed))

    def measure(self, ground: "Ground", cell: ScaledCell) -> Record:
        """What a method gives with a variant."""
        return {**_measured(ground.changed(cell), cell), "fingerprint": FINGERPRINT}

    def text(self, records: Sequence[Record]) -> str:
        """A table for each panel, and what becomes of the paper's observations."""
        return figure_s4_text(records)

    def draw(self, records: Sequence[Record], folder: Path) -> None:
        """Four panels for each network."""
        draw_panels(records, folder / "figureS4.png")


@final
class Ground:
    """A problem and its variants; cells with the same adapter share what is cached of it."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._known: dict[Variant, Problem] = {}

    def changed(self, cell: ScaledCell) -> Problem:
        """The problem of a cell's variant."""
        variant = replace(VARIANTS[cell.method], share=Variant.share)
        return self._known.setdefault(variant, _changed(self.problem, variant, cell))


def adapter_of(variant: Variant, network: str, scale: str) -> Adapter:
    """The adapter whose phi is a variant's input.

    Example:
        >>> adapter_of(VARIANTS["last-biases"], "resnet32", "small")
        Biases(layers=('fc',), strength=0.2)
    """
    if variant.input == "last biases":
        return Biases(layers={"resnet32": "fc", "small_convnet": "output"}[network])
    if variant.input == "all biases":
        return Biases()
    if variant.input == "last layer":
        return LastLayer()
    return FiLM(dim=variant.dim, layers=CIFAR_SCALES[scale].layers[network]) + OutputAffine()


def _changed(problem: Problem, variant: Variant, cell: ScaledCell) -> Problem:
    search = problem.search
    if variant.source == "training":
        # As many as there are validation images to query; they are in no other way special among the training images.
        rows = slice(len(search))
        search = Examples(problem.train.inputs[rows], problem.train.targets[rows])
    return replace(problem, adapter=adapter_of(variant, cell.data, cell.scale), search=search)


def observations(variant: Variant, steps: int) -> int:
    """K, at least the 2 that an interpolation needs.

    Example:
        >>> [observations(VARIANTS[name], 120) for name in ("k-2.5", "default", "k-10", "k-100")]
        [3, 6, 12, 120]
    """
    return max(2, round(variant.share * steps))


def _measured(problem: Problem, cell: ScaledCell) -> Record:
    began = time.perf_counter()
    phi, queries, correlation = _found(problem, cell)
    seconds = time.perf_counter() - began
    before, after = problem.costs(torch.stack([torch.zeros_like(phi), phi]), "test").tolist()
    return {
        "test_before": before,
        "test_cost": after,
        "gain": before - after,
        "dim": len(phi),
        "queries": queries,
        "rank_correlation": correlation,
        "seconds": seconds,
        "problem": problem.notes,
    }


def _found(problem: Problem, cell: ScaledCell) -> tuple[Tensor, int, float | None]:
    """What a method gives: phi, the queries it took, and the rank correlation of its value function."""
    effort = EFFORTS[cell.scale]
    steps = effort.stages.steps
    queries = effort.tasks * observations(VARIANTS[cell.method], steps)
    oracle = problem.oracle(queries=queries)
    task = oracle.task
    if cell.metric == "loss":
        return loss_path(task, train_batches(task, cell.seed), steps=steps, lr=LR)[-1], 0, None
    if cell.metric == "search":
        outcome, correlation = propose(oracle, queries=queries, recipe=effort.recipe, seed=cell.seed)
        return outcome.phi, oracle.ledger.used, correlation
    stages = replace(effort.stages, observations=queries // effort.tasks)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatValueWarning)  # the table shows it
        learnt = learn_value_function(oracle, queries=queries, seed=cell.seed, stages=stages)
    phi = finetune(task, learnt.value, seed=cell.seed, stages=stages).phi
    return phi, oracle.ledger.used, learnt.health.rank_correlation
