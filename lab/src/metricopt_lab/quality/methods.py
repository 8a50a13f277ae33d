"""Every method of the benchmark in one form: `optimize` as a user calls it, and its rivals."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch

from metricopt import optimize
from metricopt.crossfit.settings import CROSSFIT_VERSION
from metricopt.search import RECIPE_VERSION
from metricopt_lab.cells import chosen
from metricopt_lab.cells.versions import version_of
from metricopt_lab.quality.ground import Ground, given
from metricopt_lab.quality.settings import Settings
from metricopt_lab.rivals import BASELINES
from metricopt_lab.rivals.weights import WEIGHT_RIVALS
from metricopt_lab.rivals.weights.finetunings import Clock

Sees = Literal["labels", "no labels", "either"]
"""Where a method is measured: on problems with visible labels, with hidden ones, or on both."""

OURS: dict[str, dict[str, Any]] = {
    "metricopt": {},
    "metricopt_quick": {"effort": "quick"},
    "metricopt_adapter": {"tune": "adapter"},
}
"""What each of ours adds to a user's call of `optimize`."""

OUR_VERSION, SEARCH_VERSION = 100 * CROSSFIT_VERSION, 100 + RECIPE_VERSION
"""Of ours where labels are visible, and where they are hidden: a change of one leaves records of the other alone."""

CONFIDENCE: float = inspect.signature(optimize).parameters["confidence"].default
"""How sure `optimize` wants to be, unless it is told otherwise."""

LABEL_FREE = ("post_shift", "cma_es", "snes", "spsa", "random_search", "post_shift_then_cma")
"""Rivals that move the same phi as `optimize` does where labels are hidden."""

LIBRARIES = (
    "gp_log_ei", "gp_log_ei_told", "sphere_log_ei", "turbo", "optuna_tpe", "optuna_gp", "cma_es_lr_adapt", "cr_fm_nes",
)  # fmt: skip
"""Those of them that are other people's optimizers: an extra of the laboratory."""

MOST = 500
"""Calls that those are measured with at most: what a Gaussian process takes grows with the cube of them."""


@dataclass(frozen=True)
class Judged:
    """What a method gave at a budget; costs are on test rows, lower is better.

    Attributes:
        returned: Cost of what its user gets.
        proposed: Cost of what it found, whether it was accepted or not.
        calls: Every call of the metric.
        took: Its time.
        verdict: What it says itself of what it found; rivals say nothing.
        details: Anything worth knowing.
    """

    returned: float
    proposed: float
    calls: int
    took: Clock
    verdict: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Method:
    """A way to spend calls of the metric.

    Attributes:
        name: What it is called in tables.
        sees: On which problems it is measured.
        version: By which a record says how old it is.
        run: `run(ground, queries=...)`; None where it has nothing to offer.
        most: Budgets above it are left out.
    """

    name: str
    sees: Sees
    version: int
    run: Callable[..., Judged | None]
    most: float = math.inf

    def fits(self, *, labels_visible: bool) -> bool:
        """Whether it is measured on such a problem."""
        return self.sees == "either" or (self.sees == "labels") == labels_visible


def methods_of(settings: Settings) -> list[Method]:
    """The methods that the settings ask for.

    Example:
        >>> [method.name for method in methods_of(Settings(methods=("wise_ft", "metricopt")))]
        ['metricopt', 'wise_ft']
    """
    return [METHODS[name] for name in chosen(settings.methods, list(METHODS), "method")]


def _ours(ground: Ground, *, queries: int, more: Mapping[str, Any]) -> Judged:
    problem, began = ground.problem, Clock()
    result = optimize(
        problem.net, metric=problem.metric, train=given(problem.train), val=given(problem.val),
        loss=problem.loss, queries=queries, seed=problem.seed, learn_from_val=problem.labels_visible,
        finetuner=ground.shared_fits.for_a_run(), **more,
    )  # fmt: skip
    took = began.taken + ground.shared_fits.spared
    phi = torch.stack([result.model.phi.detach().cpu(), result.proposal.cpu()])
    returned, proposed = ground.test_costs(result.model, phi)
    said = result.to_dict()
    told = ("accepted", "before", "proposed", "interval", "level", "confidence", "queries")
    details = {"wanted_confidence": CONFIDENCE, **{name: said[name] for name in told}}
    return Judged(returned, proposed, result.ledger.calls, took, result.verdict, details)


def _weights(ground: Ground, *, queries: int, name: str) -> Judged | None:
    tuned = WEIGHT_RIVALS[name].run(ground.finetunings, calls=queries)
    if tuned is None:
        return None
    cost = ground.finetunings.test_cost(tuned.state, tuned.bias)
    return Judged(cost, cost, tuned.calls, tuned.took, details=tuned.details)


def _phi(ground: Ground, *, queries: int, name: str) -> Judged | None:
    if name.startswith("post_shift") and ground.problem.metric.on == "embeddings":
        return None  # nothing is decided by a threshold of theirs
    oracle, began = ground.oracle(queries), Clock()
    outcome = BASELINES[name].run(oracle, queries=queries, seed=ground.problem.seed)
    took = began.taken
    cost = ground.test_costs(ground.model, outcome.phi[None])[0]
    return Judged(cost, cost, oracle.ledger.calls, took)


def _all_methods() -> Sequence[Method]:
    return [
        *(Method(name, "either" if name == "metricopt" else "labels", OUR_VERSION, partial(_ours, more=more))
          for name, more in OURS.items()),
        *(Method(name, "labels", rival.version, partial(_weights, name=name)) for name, rival in WEIGHT_RIVALS.items()),
        *(Method(name, "no labels", version_of(name), partial(_phi, name=name)) for name in LABEL_FREE),
        *(Method(name, "no labels", version_of(name), partial(_phi, name=name), MOST) for name in LIBRARIES),
    ]  # fmt: skip


METHODS: dict[str, Method] = {method.name: method for method in _all_methods()}
"""All methods by name, ours first."""
