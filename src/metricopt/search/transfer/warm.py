"""Beginning with what another search has learnt: trusted as far as its forecasts hold, let go of when they do not."""

import math
from collections.abc import Callable
from typing import final

import torch
from torch import Tensor

from metricopt.core.ranks import rank_correlation
from metricopt.search.archive import Archive
from metricopt.search.memory import Memory
from metricopt.search.transfer.forecast import Forecast
from metricopt.search.view_gp import ViewGP, view_gp
from metricopt.task.views import View

TRIAL = 3
"""Queries about what the carried value likes best, before anything else is believed of it."""
_ALLOWANCE = 0.1  # of all queries: what it may cost where it does not help
_CLIMBS, _LOOKS = 8, 40  # rounds of looking for what it likes, and points looked at in each: no query
_REMEMBERED = 80
_AGREES = 0.5  # rank correlation of forecasts with the first answers
_MISLEADS = -3.0  # nats by which the search's own forecasts may be ahead of those with the carried ones
_CAUTION = 1.0  # standard deviations: far from what it has seen, a value function promises what it does not know

Propose = Callable[[Tensor], Tensor]
"""From a centre (dim,) to points around it, (n, dim)."""


@final
class WarmStart:
    """The carried forecasts within one search.

    Attributes:
        holds: Whether they are still believed.
        why: Why not, once they are not.

    Example:
        >>> from metricopt.search.transfer.carried import CarriedValue
        >>> from metricopt.search.transfer.place import Place
        >>> from metricopt.task.oracle import Oracle
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task, draw = QuadraticTask(dim=3), torch.Generator().manual_seed(0)
        >>> phi = torch.randn(60, 3, generator=draw)
        >>> place = Place("mcr", "min", "labels", "FiLM of 3, seed 0", 0, "a")
        >>> value = CarriedValue(place, task.costs(phi).float(), phi, torch.zeros(0, 0, 0), torch.zeros(0, 0))
        >>> archive = Archive(Oracle(task), 100)
        >>> archive.observe(torch.zeros(1, 3), stage="start")
        >>> warm = WarmStart(Forecast(value, "phi"), queries=100, same_metric=True)
        >>> warm.begin(archive, lambda centre: centre + 0.5 * torch.randn(40, 3, generator=draw), rows=10, batch=5)
        >>> warm.holds, bool(archive.best_cost < archive.costs[0])
        (True, True)
    """

    def __init__(self, forecast: Forecast, *, queries: int, same_metric: bool) -> None:
        self._forecast, self._same = forecast, same_metric
        self._allowance = math.floor(_ALLOWANCE * queries)
        self._trial = min(TRIAL, self._allowance)
        self._idle, self._ahead = 0, 0.0
        self._outputs, self._costs = torch.zeros(0, 0, 0), torch.zeros(0)
        self._said: list[tuple[float, float]] = []  # forecast and answer
        self.holds, self.why = self._trial > 0, "" if self._trial else "there are too few queries to try it"

    def begin(self, archive: Archive, propose: Propose, *, rows: int, batch: int) -> None:
        """Ask about what the carried value likes best, and compare its forecasts with all answers so far.

        Args:
            archive: With some answers.
            propose: Points around a centre.
            rows: Rows that are looked at.
            batch: How many queries are asked at a time afterwards.
        """
        if not self.holds:
            return
        probe, before = archive.oracle.probe, archive.best_cost
        (known, costs), made = archive.known(), len(archive.costs)
        outputs = probe.shown(known, rows=rows)  # the original comes first
        self._said = list(zip(self._forecast(known, outputs)[0].tolist(), costs.tolist(), strict=True))
        chosen = self._climb(archive, propose, (known, outputs), rows)
        archive.observe(chosen[~archive.asked(chosen)], stage="transfer")
        archive.wait()
        fresh = archive.points[made:]
        said = self._forecast(fresh, probe.shown(fresh, rows=rows))[0] if len(fresh) else torch.zeros(0)
        self._said += [
            pair for pair in zip(said.tolist(), archive.costs[made:].tolist(), strict=True) if pair[1] == pair[1]
        ]
        agrees = rank_correlation(*zip(*self._said, strict=True), least=4)
        self._idle = 0 if archive.best_cost < before else len(fresh)
        if self._idle and agrees < _AGREES:
            self._let_go(f"its forecasts agree with {len(self._said)} first answers by {agrees:.2f} and gain nothing")
        elif self._mapped() is None:
            self._let_go("where it expects more, there is less")
        else:
            self._bound(batch)
        archive.oracle.ledger.note("transfer", {"said": self._said, "holds": self.holds, "why": self.why})

    def _climb(self, archive: Archive, propose: Propose, known: tuple[Tensor, Tensor], rows: int) -> Tensor:
        """What the carried value likes best of hundreds of points, (trial, dim); what was looked at is remembered."""
        probe = archive.oracle.probe
        points, outputs = [known[0]], [known[1]]
        if len(self._forecast.points):
            best = self._forecast.points[self._forecast.costs.argsort()[: _LOOKS // 4]]
            points, outputs = [*points, best], [*outputs, probe.shown(best, rows=rows)]
        scores = [self._cautious(*pair) for pair in zip(points, outputs, strict=True)]
        for _ in range(_CLIMBS):
            centre = torch.cat(points)[torch.cat(scores).argmin()]
            around = propose(centre)[:_LOOKS]
            points, outputs = [*points, around], [*outputs, probe.shown(around, rows=rows)]
            scores.append(self._cautious(around, outputs[-1]))
        tried, score = torch.cat(points[1:]), torch.cat(scores[1:])
        self._remember(tried, torch.cat(outputs[1:]), score)
        order, halfway = score.argsort(stable=True).tolist(), int(score[: _CLIMBS // 2 * _LOOKS].argmin())
        # Half way there, too: a value function is surer of what is nearer to where it was learnt.
        return tried[list(dict.fromkeys([order[0], halfway, *order]))[: self._trial]]

    def _cautious(self, points: Tensor, outputs: Tensor) -> Tensor:
        mean, std = self._forecast(points, outputs)
        return mean + _CAUTION * std

    def _remember(self, points: Tensor, outputs: Tensor, score: Tensor) -> None:
        """What stands for the carried value among the search's own answers: the answers themselves of the same rows."""
        if len(self._forecast.outputs):
            self._outputs, self._costs = self._forecast.outputs, self._forecast.costs
            return
        order = score.argsort()
        spread = order[torch.linspace(0, len(order) - 1, _REMEMBERED // 4).long()]
        chosen = torch.cat([order[: 3 * _REMEMBERED // 4], spread]).unique()
        self._outputs = outputs[chosen]
        self._costs = self._forecast(points[chosen], self._outputs)[0]

    def _mapped(self) -> tuple[Tensor, float] | None:
        """The carried costs in units of this metric and their mean squared error; None if they say nothing of it."""
        if self._same and len(self._forecast.outputs):
            return self._costs, 0.0
        said, told = torch.tensor(self._said).T
        away, rise = said - said[0], told - told[0]
        expected = 1.0 if self._same else 0.0
        ballast = 2 / len(said) * away.square().sum()  # few answers do not yet say by how much
        slope = float((away @ rise + expected * ballast) / (away.square().sum() + ballast).clamp_min(1e-12))
        if slope <= 0.05:
            return None
        error = float((rise - slope * away).square().sum() / max(1, len(said) - 2))
        return told[0] + slope * (self._costs - said[0]), error

    def informed(self, memory: Memory, view: View, own: ViewGP) -> ViewGP:
        """The value function of the search's own answers and the carried ones."""
        mapped = self._mapped() if self.holds else None
        if mapped is None:
            return own
        costs, error = mapped
        features = torch.cat([memory.features(view), view.features(self._outputs)])
        together = torch.cat([memory.costs, costs])
        first = view_gp(features, together)
        extra = torch.zeros(len(features), dtype=torch.float64)
        extra[len(memory.costs) :] = error / float(first.hyperparameters.signal_variance)
        return view_gp(features, together, like=first.hyperparameters, extra=extra)

    def judge(
        self, own: tuple[Tensor, Tensor], informed: tuple[Tensor, Tensor], costs: Tensor, *, gained: bool
    ) -> None:
        """Compare forecasts (mean, std) of the search's own value function and of the informed one with answers (n,).

        It is let go of once the own ones are clearly better, or its queries have gained nothing for too long.
        """
        if not self.holds or not len(costs):
            return
        known = ~costs.isnan()
        ahead = float((_density(*informed, costs) - _density(*own, costs))[known].sum())
        # No credit for former merits: one own forecast that was far too sure would be worth thousands of nats.
        self._ahead = min(0.0, self._ahead + ahead)
        self._idle = 0 if gained else self._idle + len(costs)
        if self._ahead < _MISLEADS:
            self._let_go("the search's own value function forecasts better")
        else:
            self._bound(len(costs))

    def _bound(self, batch: int) -> None:
        """Let go of it before more queries than allowed have gained nothing, the next ones among them."""
        if self._idle and self._idle + batch > self._allowance:
            self._let_go(f"{self._idle} queries have gained nothing")

    def _let_go(self, why: str) -> None:
        self.holds, self.why = False, why
        self._outputs, self._costs = torch.zeros(0, 0, 0), torch.zeros(0)


def _density(mean: Tensor, std: Tensor, costs: Tensor) -> Tensor:
    """Logarithm of a normal density, (n,); a forecast that claims to be sure is held to a thousandth."""
    spread = std.clamp_min(1e-3)
    return -((costs - mean) / spread).square() / 2 - spread.log()
