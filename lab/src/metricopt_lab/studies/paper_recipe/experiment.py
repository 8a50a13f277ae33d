"""The paper's recipe by its number of tasks: to the letter, with each deviation alone, with both, untrained."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import final

import torch

from metricopt.paper.preset import ENDS, follow
from metricopt.paper.settings import PAPER, PAPER_LETTER
from metricopt.paper.stages import learn_from
from metricopt.paper.training import Training
from metricopt_lab.cells import EXPERIMENTS, Record, ScaledCell, ScaledExperiment
from metricopt_lab.data.cifar10 import FINGERPRINT
from metricopt_lab.problems.cifar import NETWORKS
from metricopt_lab.problems.problem import Part
from metricopt_lab.problems.tabular_scales import SCALES, fingerprint
from metricopt_lab.studies.paper_recipe.ground import Ground, ground_of, sampling_of
from metricopt_lab.studies.paper_recipe.plot import draw_recipe
from metricopt_lab.studies.paper_recipe.text import recipe_text

VERSION = 2
"""To be bumped by hand when the stages, the rates or the training of the value network change."""

TASKS = {"smoke": (6,), "small": (64, 250, 1000), "paper": (64, 250, 1000)}
"""Numbers of tasks by scale."""

VARIANTS: dict[str, Training] = {
    "letter": PAPER_LETTER.training,
    "standardised": replace(PAPER_LETTER.training, standardise=True),
    "no-norm": replace(PAPER_LETTER.training, norm="none"),
    "both": PAPER.training,
    # At a rate of 0 the network stays as it was drawn, with everything else as it is in "both".
    "untrained": replace(PAPER.training, inner_lr=0.0),
}
"""How the value network is trained; the two deviations alone and together."""

METRIC = {"small_convnet": "aucpr_macro_by_logit"}
"""What is improved; everywhere else the error rate."""


@EXPERIMENTS.add("paper-recipe")
@final
class PaperRecipe(ScaledExperiment[Ground]):
    """The paper's recipe by its number of tasks: to the letter, with each of two deviations, with both, untrained."""

    scales = tuple(TASKS)

    def known_data(self) -> list[str]:
        """A9A and CoverType as far as the scale has them, and CIFAR-10 with both networks."""
        tables = [name for name in ("a9a", "covtype2") if name in SCALES[self.settings.scale].rows]
        return tables if self.settings.scale == "smoke" else [*tables, *NETWORKS]

    def cells(self) -> list[ScaledCell]:
        """Few tasks before many."""
        scale = self.settings.scale
        return [
            ScaledCell(scale, data, sampling_of(data), seed, METRIC.get(data, "mcr"), method)
            for data in self.data()
            for seed in range(self.settings.seeds)
            for method in (f"{variant}-{tasks}" for tasks in TASKS[scale] for variant in VARIANTS)
        ]

    def ground(self, first: ScaledCell) -> Ground:
        """The problem, and trajectories that all value functions learn from."""
        return ground_of(first.scale, first.data, seed=first.seed)

    def measure(self, ground: Ground, cell: ScaledCell) -> Record:
        """Rank correlation on trajectories never seen, and the gain on test rows of the path that it leads."""
        variant, _, number = cell.method.rpartition("-")
        found = FINGERPRINT if cell.data in NETWORKS else fingerprint(cell.data)
        return {**measured(ground, variant, int(number)), "fingerprint": found}

    def version_of(self, method: str) -> int:  # noqa: ARG002
        """One for all."""
        return VERSION

    def text(self, records: Sequence[Record]) -> str:
        """Both figures by variant and number of tasks, and what it takes for the method to work."""
        return recipe_text(records)

    def draw(self, records: Sequence[Record], folder: Path) -> None:
        """Both figures against the number of tasks."""
        draw_recipe(records, folder / self.pictures[0])


def measured(ground: Ground, variant: str, tasks: int, *, part: Part = "test") -> Record:
    """The recipe with so many trajectories: what its value function tells, and what it gains on a part of the data."""
    began, problem, seed = time.perf_counter(), ground.problem, ground.problem.seed
    stages = ground.stages.trained_by(VARIANTS[variant])
    learnt = learn_from(ground.oracle, ground.paths(tasks), stages, seed=seed)
    found = follow(ground.oracle, learnt, seed=seed, stages=stages)
    pair = torch.stack([torch.zeros_like(found.phi), found.phi])
    before, after = problem.costs(pair, part).tolist()
    return {
        "variant": variant,
        "tasks": tasks,
        "queries": tasks * stages.queries_a_task + ENDS,
        "rank_correlation": learnt.health.rank_correlation,
        "value_spread": learnt.health.spread,
        "before": problem.metric.natural(before),
        "gain": before - after,
        "search_gain": float(found.costs[0] - found.costs[1:].clamp_max(1.0).min()),  # 1 of a failed query
        "collecting_rate": stages.lr,
        "guided_rate": found.rate,
        "reach": found.reach,
        "moved": float(found.phi.norm()) / len(found.phi) ** 0.5,
        "seconds": time.perf_counter() - began,
        "problem": problem.notes,
    }
