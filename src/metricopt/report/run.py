"""What a report is made from: one run as plain numbers, whole or as far as it got."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Trajectories:
    """Finetuning paths with the metric observed at a few steps and interpolated between them, as costs.

    Attributes:
        observed_steps: Steps at which the metric was queried, (paths, observations).
        costs: What it answered, NaN where it failed, (paths, observations).
        mean: Interpolated cost at every step, (paths, steps).
        std: Its standard deviation, (paths, steps).
    """

    observed_steps: Array
    costs: Array
    mean: Array
    std: Array


@dataclass(frozen=True)
class Landscape:
    """The loss on the straight line from the original to the proposal.

    Attributes:
        shares: Places on the line: 0 is the original, 1 the proposal, (n,).
        loss: The training loss there, (n,).
    """

    shares: Array
    loss: Array


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        start: How it was set up.
        stages: Stage of each query.
        costs: Cost of each query, NaN where the metric failed, (queries,).
        answers: What the metric said, in natural units, NaN where that was not recorded, (queries,) or (0,).
        points: phi of each query, (queries, dim), or (0, 0) where they were not recorded.
        forecasts: Query number from 0, forecast cost and its deviation (NaN where unknown) in rows, (n, 3).
        failures: What failed queries said, by query number from 0.
        violations: By how much each query breaks the constraints, 0 where it keeps them, (queries,).
        parts: Which queries are about some of the rows only, (queries,).
        times: Seconds from the start to each answer, NaN where unknown, (queries,).
        incumbents: Numbers from 0 of the queries whose phi became the best point, in order.
        health: What was said about the value function, the last word last.
        accepted: The comparison on held-out data; empty before it was made.
        test: Original against result on test data, used once; empty where it was not asked for.
        result: What the run ended with; empty before its end.
        rivals: Best value so far of other methods, in natural units, by name.
        beside: Each of these (before) against the result (after) on test data, where that was compared.
        trajectories: Paths of the paper's first stage, if there were any.
        embedding: Penultimate features of the value network and the costs they belong to, (n, features) and (n,).
        unseen: Costs that a value network predicted on paths it never saw, and the true ones, (n,) each.
        landscape: The loss between original and proposal, if it was computed.
        proposal: phi that the search proposed in the end, (dim,), if that is known.
        missing: Sentences about what the records lack.

    Example:
        >>> run = Run({"metric": {"name": "f1", "goal": "max"}}, stages=("start", "value"), costs=np.array([0.4, 0.3]))
        >>> run.values.tolist(), run.best.tolist()
        ([0.6, 0.7], [0.6, 0.7])
    """

    start: Mapping[str, Any]
    stages: tuple[str, ...]
    costs: Array
    answers: Array = field(default_factory=lambda: np.zeros(0))
    points: Array = field(default_factory=lambda: np.zeros((0, 0)))
    forecasts: Array = field(default_factory=lambda: np.zeros((0, 3)))
    failures: Mapping[int, str] = field(default_factory=dict)
    violations: Array = field(default_factory=lambda: np.zeros(0))
    parts: Flags = field(default_factory=lambda: np.zeros(0, dtype=bool))
    times: Array = field(default_factory=lambda: np.zeros(0))
    incumbents: tuple[int, ...] = ()
    health: tuple[Mapping[str, Any], ...] = ()
    accepted: Mapping[str, Any] = field(default_factory=dict)
    test: Mapping[str, Any] = field(default_factory=dict)
    result: Mapping[str, Any] = field(default_factory=dict)
    rivals: Mapping[str, Array] = field(default_factory=dict)
    beside: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    trajectories: Trajectories | None = None
    embedding: tuple[Array, Array] | None = None
    unseen: tuple[Array, Array] | None = None
    landscape: Landscape | None = None
    proposal: Array | None = None
    missing: tuple[str, ...] = ()

    @property
    def metric(self) -> str:
        """Name of the metric."""
        return str(self._about_metric.get("name", "metric"))

    @property
    def goal(self) -> str:
        """Which way is better, "max" or "min"."""
        return "min" if self._about_metric.get("goal") == "min" else "max"

    @property
    def _about_metric(self) -> Mapping[str, Any]:
        about = self.start.get("metric")
        return about if isinstance(about, Mapping) else {}

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest value of the metric; infinite where it has none."""
        found = self._about_metric.get("bounds")
        if isinstance(found, list | tuple) and len(found) == 2 and None in found:
            low, high = found
            return -np.inf if low is None else _finite(low), np.inf if high is None else _finite(high)
        if isinstance(found, list | tuple) and len(found) == 2 and all(isinstance(each, int | float) for each in found):
            return float(found[0]), float(found[1])
        return 0.0, 1.0

    @property
    def budget(self) -> int | None:
        """How many queries were granted, if that is known."""
        settings = self.start.get("settings")
        granted = settings.get("queries") if isinstance(settings, Mapping) else None
        return granted if isinstance(granted, int) else None

    @property
    def calls(self) -> tuple[int, int] | None:
        """How often the metric was really called, in the search and for the decision, if both were counted."""
        calls, decision = self.result.get("calls"), self.result.get("decision_calls")
        return (calls - decision, decision) if isinstance(calls, int) and isinstance(decision, int) else None

    @property
    def sign(self) -> float:
        """1 if a larger value is better, else -1."""
        return 1.0 if self.goal == "max" else -1.0

    def natural(self, cost: Array) -> Array:
        """Costs in the metric's natural units."""
        low, high = self.bounds
        if np.isfinite(high - low):
            return low + (high - low) * (1.0 - cost if self.goal == "max" else cost)
        reference, spread = self._anchor
        inside = np.clip(np.asarray(cost, dtype=float), 1e-6, 1 - 1e-6)  # beyond, rounding is all there is
        return np.clip(reference - self.sign * spread * np.tan(np.pi * (inside - 0.5)), low, high)

    @property
    def unit(self) -> float:
        """How much one unit of cost is in natural units; without bounds, near the original's value."""
        low, high = self.bounds
        return high - low if np.isfinite(high - low) else np.pi * self._anchor[1]

    @property
    def _anchor(self) -> tuple[float, float]:
        """What the costs of a metric without bounds are measured by: the first answer and its size."""
        known = self.answers[np.isfinite(self.answers)]
        first = float(known[0]) if len(known) else 0.0
        return first, abs(first) or 1.0

    @property
    def values(self) -> Array:
        """The answers in natural units, NaN where the metric failed, (queries,)."""
        values = self.natural(self.costs)
        if np.isfinite(self.unit) and len(self.answers) and not np.isfinite(sum(self.bounds)):
            return np.where(np.isfinite(self.answers), self.answers, values)
        return values

    @property
    def best(self) -> Array:
        """Best value of all rows that keeps the constraints after each query, NaN before the first one, (queries,)."""
        return self.natural(self._lowest)

    @property
    def _lowest(self) -> Array:
        allowed = np.where(self.set_aside, np.nan, self.costs)
        return np.fmin.accumulate(allowed) if len(allowed) else allowed

    @property
    def broken(self) -> Flags:
        """Which queries break a constraint, (queries,)."""
        return self.violations > 0 if len(self.violations) else np.zeros(len(self.costs), dtype=bool)

    @property
    def judged_on(self) -> str:
        """Which kind of rows decided: held out from everything, out of fold, or those that were searched."""
        return str(self.accepted.get("rows", "held-out"))

    @property
    def set_aside(self) -> Flags:
        """Which queries cannot be the best one: they break a constraint or are about some of the rows only."""
        return self.broken | self.parts if len(self.parts) else self.broken

    @property
    def original(self) -> float:
        """The answer at phi = 0, or the first one where that is not known; NaN before any."""
        known = np.flatnonzero(self.answered)
        if not len(known):
            return float("nan")
        zeros = [i for i in known if self.at_original(int(i))]
        return float(self.values[zeros[0] if zeros else known[0]])

    def at_original(self, index: int) -> bool:
        """Whether a query asked about phi = 0; False where phi was not recorded."""
        return bool(len(self.points)) and not self.points[index].any()

    @property
    def answered(self) -> Flags:
        """Which queries brought a number, (queries,)."""
        return np.isfinite(self.costs)

    @property
    def judged(self) -> int | None:
        """Number from 0 of the query whose phi was put to the held-out data, if it was one and is known."""
        if self.proposal is None or not len(self.points) or self.proposal.shape != self.points[0].shape:
            return None
        found = np.flatnonzero((self.points == self.proposal).all(1) & self.answered)
        return int(found[0]) if len(found) else None

    @property
    def kept(self) -> int | None:
        """Number from 0 of the query whose phi is in the model that was returned; None if that is the original."""
        return self.judged if self.accepted.get("accepted") is True else None

    @property
    def lowest(self) -> int | None:
        """Number from 0 of the query with the best answer of those that keep the constraints."""
        allowed = np.where(self.set_aside, np.nan, self.costs)
        return int(np.nanargmin(allowed)) if np.isfinite(allowed).any() else None

    @property
    def path(self) -> tuple[int, ...]:
        """Numbers of the queries that were the best so far, as recorded or else as the costs say."""
        if self.incumbents:
            return self.incumbents
        earlier = np.concatenate([[np.inf], np.nan_to_num(self._lowest, nan=np.inf)[:-1]])
        return tuple(int(i) for i in np.flatnonzero((self.costs < earlier) & ~self.set_aside))


def _finite(number: Any) -> float:
    return float(number) if isinstance(number, int | float) else 0.0
