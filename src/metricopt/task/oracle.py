"""Who asks: every answer of the metric comes through here, is counted, written down, and never paid twice."""

import hashlib
import math
from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor

from metricopt.metrics.constraint import Constraint, binomial_std
from metricopt.metrics.metric import Metric
from metricopt.run.ledger import Query, QueryLedger, Sheet
from metricopt.task.base import Task

_NOISE_RESAMPLES, _DOUBT_RESAMPLES = 100, 24
_REMEMBERED = 4  # phi with their costs on resamples


@final
class Oracle:
    """Asks a task's metric about phi, within the ledger's grant.

    Args:
        task: The problem.
        ledger: Counts the queries; one without a limit if None.
        keep: Constraints, checked on the same predictions as the metric.

    Attributes:
        task: The problem.
        probe: What may be looked at of it without asking.
        ledger: Every answer so far.
        keep: The constraints.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> oracle = Oracle(QuadraticTask(dim=2), QueryLedger(budget=5))
        >>> oracle.observe(torch.zeros(3, 2), stage="start").shape, oracle.ledger.remaining
        (torch.Size([3]), 2)
    """

    def __init__(self, task: Task, ledger: QueryLedger | None = None, *, keep: Sequence[Constraint] = ()) -> None:
        self.task = task
        self.probe = task.probe()
        self.ledger = QueryLedger() if ledger is None else ledger
        self.keep = tuple(keep)
        self._margins: list[float] | None = None
        self._resamples: dict[bytes, Tensor] = {}
        self._counted: set[str] = set()

    @property
    def dim(self) -> int:
        """Size of phi."""
        return self.task.dim

    def observe(self, phi: Tensor, *, stage: str = "query", shown: Any = None) -> Tensor:
        """Each member's metric as a cost in [0, 1], NaN where it failed, (population,); one query each.

        Answers that the ledger's journal holds are taken from there. A member that breaks a constraint costs more
        than the first point queried if that keeps it, and more than 1 if not: it is never the best one.

        Args:
            phi: What is asked about, (population, dim).
            stage: Which part of a search asks.
            shown: Predictions that the metric is to see instead of those that the task would compute.
        """
        self.ledger.charge(len(phi), stage=stage)
        phi = phi.detach().cpu()  # where the ledger and its journal are
        if shown is not None:
            return self._observed(phi, stage, shown)
        return torch.cat([self._observed(part, stage) for part in phi.split(self.task.members_at_once)])

    def _observed(self, phi: Tensor, stage: str, shown: Any = None) -> Tensor:
        sheet = self.ledger.sheet(phi, stage=stage)
        if sheet.missing:
            self.fill(sheet, shown)
        return self.entered(sheet)

    def fill(self, sheet: Sheet, shown: Any = None) -> None:
        """Write the missing answers on a sheet; all members are computed, so that bits do not depend on who asks."""
        predictions = self.task.predictions(sheet.phi) if shown is None else shown
        kept = [self.task.values(predictions, each.metric, sheet.missing) for each in self.keep]
        broken = torch.zeros(len(sheet.phi), dtype=torch.float64)
        for constraint, values, margin in zip(self.keep, kept, self.margins(), strict=True):
            broken += constraint.violation(values, margin=margin)
        left = len(sheet.missing)
        for member, cost, value, failure in self.task.replies(predictions, sheet.missing):
            left -= 1
            query = Query(
                sheet.stage,
                cost,
                value,
                failure=failure,
                kept=tuple(float(values[member]) for values in kept),
                violation=float(broken[member]),
            )
            sheet.write(member, query, sync=left == 0 or not self.task.asks_cheaply)

    def entered(self, sheet: Sheet) -> Tensor:
        """Costs of a sheet that is filled in, (population,), with what they cost more for breaking constraints."""
        queries = sheet.enter()
        costs = torch.tensor([query.cost for query in queries], dtype=torch.float64)
        violations = torch.tensor([query.violation for query in queries], dtype=torch.float64)
        if not bool(violations.any()):
            return costs
        first = next((query for query in self.ledger.queries if query.cost == query.cost), None)
        least = first.cost if first is not None and first.violation == 0 else 1.0
        return torch.where(violations > 0, costs.clamp_min(least) + violations, costs)

    @property
    def asks_cheaply(self) -> bool:
        """Whether any process may ask the metric and those of the constraints."""
        return self.task.asks_cheaply and not any(each.metric.costly or each.metric.hidden for each in self.keep)

    def margins(self) -> list[float]:
        """How far inside each constraint's bound the search stays, in natural units, measured once at phi = 0."""
        if self._margins is None:
            self._margins = [constraint.margin(self._std_of(constraint.metric)) for constraint in self.keep]
        return self._margins

    def _std_of(self, metric: Metric) -> float:
        """Standard deviation of a constraint's metric at phi = 0, in natural units."""
        low, high = metric.bounds
        origin = torch.zeros(1, self.task.dim)
        if metric.costly:
            predictions = self.task.predictions(origin)
            value = self.ledger.once(f"level of {metric.name}", lambda: self.task.values(predictions, metric, [0]))
            self.ledger.checks += 1
            level = (low + high) / 2 if value is None or bool(value.isnan()) else float(value)
            return binomial_std(level, metric, self.task.rows)
        key = f"noise of {metric.name}"
        costs = self.ledger.once(key, lambda: self.task.resampled_costs(origin[0], _NOISE_RESAMPLES, metric))
        self.ledger.resamples += _NOISE_RESAMPLES
        return 0.0 if costs is None else (high - low) * _spread(costs, otherwise=0.0)

    def noise_std(self) -> float:
        """Standard deviation of one answer at phi = 0 due to the finite metric data."""
        known = self._resampled(torch.zeros(self.task.dim), _NOISE_RESAMPLES)
        return self.task.noise_guess() if known is None else _spread(known, otherwise=self.task.noise_guess())

    def doubt(self, phi: Tensor, other: Tensor) -> float:
        """Standard error of the difference of two costs, each phi (dim,), due to the finite metric data."""
        one = self._remembered(phi)
        if one is None:
            return self.task.doubt_guess(phi, other)
        two = self._remembered(other)
        assert two is not None
        return _spread(one - two, otherwise=math.inf)

    def _remembered(self, phi: Tensor) -> Tensor | None:
        """Costs on resamples, of the last few phi asked about for nothing: they are compared again and again."""
        key = phi.numpy().tobytes()
        costs = self._resamples.pop(key, None)
        costs = self._resampled(phi, _DOUBT_RESAMPLES) if costs is None else costs
        if costs is None:
            return None
        self._resamples[key] = costs
        if len(self._resamples) > _REMEMBERED:
            del self._resamples[next(iter(self._resamples))]
        return costs

    def _resampled(self, phi: Tensor, resamples: int) -> Tensor | None:
        key = f"noise {hashlib.sha256(phi.numpy().tobytes()).hexdigest()[:16]} {resamples}"
        found = self.ledger.once(key, lambda: self.task.resampled_costs(phi, resamples))
        if found is not None and key not in self._counted:  # asked about again, the answers are recalled, not paid
            self._counted.add(key)
            self.ledger.resamples += resamples
        return found


def _spread(costs: Tensor, *, otherwise: float) -> float:
    known = costs[~costs.isnan()]
    return float(known.std()) if len(known) > 1 else otherwise
