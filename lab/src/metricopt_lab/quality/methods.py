"""Every method of the benchmark in one form: the registered rivals, and MetricOpt in its presets and variants."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import cast

from metricopt.api.optimize import Preset, propose
from metricopt.core.records import Outcome
from metricopt.search import Recipe
from metricopt.task.oracle import Oracle
from metricopt_lab.cells import chosen
from metricopt_lab.quality.settings import Settings, recipe_with
from metricopt_lab.rivals import BASELINES, Baseline

# These plan ahead with the budget they are given (a decaying rate, a split, a number of steps), so what they would have
# returned with fewer queries is not what they return when they are granted fewer.
PLANNERS = frozenset({"loss_dense", "spsa", "post_shift_then_cma", "metricopt_paper"})

DEFAULT, WITH_LABELS, PAPER = "metricopt", "metricopt_labels", "metricopt_paper"


@dataclass(frozen=True)
class Method:
    """A way to spend metric queries.

    Attributes:
        name: What it is called in tables.
        needs_labels: Whether it also learns from the labels of the metric's data.
        guarded: Whether its user gets the original model back when the acceptance test fails.
        anytime: Whether a run at the largest budget also tells what smaller ones would have given.
        search: `search(oracle, queries=..., seed=...)` giving an outcome and the value function's rank correlation.
    """

    name: str
    needs_labels: bool
    guarded: bool
    anytime: bool
    search: Callable[..., tuple[Outcome, float | None]]


def method_names(settings: Settings) -> list[str]:
    """Names of all methods, the variant of the settings among them.

    Example:
        >>> [name for name in method_names(Settings(tag="flat", recipe={"whiten": False})) if "metricopt" in name]
        ['metricopt_paper', 'metricopt', 'metricopt_labels', 'metricopt@flat', 'metricopt_labels@flat']
    """
    variants = [f"{name}@{settings.tag}" for name in (DEFAULT, WITH_LABELS)] if settings.tag else []
    return [*BASELINES, PAPER, DEFAULT, WITH_LABELS, *variants]


def methods_of(settings: Settings) -> list[Method]:
    """The methods that the settings ask for.

    Example:
        >>> [method.name for method in methods_of(Settings(methods=("metricopt", "cma_es")))]
        ['cma_es', 'metricopt']
    """
    names = chosen(settings.methods, method_names(settings), "method")
    return [_rival(BASELINES[name]) if name in BASELINES else _ours(name, settings) for name in names]


def _rival(rival: Baseline) -> Method:
    return Method(
        rival.name,
        needs_labels=rival.needs_labels,
        guarded=False,
        anytime=rival.name not in PLANNERS,
        search=partial(_search_rival, rival),
    )


def _search_rival(rival: Baseline, oracle: Oracle, *, queries: int, seed: int) -> tuple[Outcome, float | None]:
    return rival.run(oracle, queries=queries, seed=seed), None


def _ours(name: str, settings: Settings) -> Method:
    base, _, tag = name.partition("@")
    preset = cast(Preset, "paper" if base == PAPER else "default")
    recipe = recipe_with(settings.recipe if tag else {})
    return Method(
        name,
        needs_labels=base == WITH_LABELS,
        # The paper has no acceptance test.
        guarded=base != PAPER,
        anytime=base not in PLANNERS,
        search=partial(_search_ours, preset, recipe),
    )


def _search_ours(
    preset: Preset, recipe: Recipe, oracle: Oracle, *, queries: int, seed: int
) -> tuple[Outcome, float | None]:
    return propose(oracle, queries=queries, preset=preset, recipe=recipe, seed=seed)
