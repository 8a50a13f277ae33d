"""Everything a search has observed, its best point so far, and how that point came about."""

import math

import torch
from torch import Tensor

from metricopt.core.errors import ObservationError
from metricopt.core.records import Outcome
from metricopt.task.oracle import Oracle

_SETTLED = 1.0  # standard errors by which the lowest threshold has to be ahead of the curve's
_SAME = 1e-5  # distance between two phi below which they are one and the same


class Archive:
    """Asks an oracle within a limit and remembers every answer.

    Attributes:
        points: Every phi observed, (n, dim).
        costs: Their costs, NaN where the metric failed, (n,).
        best: The phi of lowest cost so far, (dim,): where the search goes on.
        best_cost: Its cost.
        plain: The best one of those that only starts and shifts have led to, (dim,).
        plain_cost: Its cost.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task = QuadraticTask(dim=2)
        >>> archive = Archive(Oracle(task), 3)
        >>> archive.observe(torch.stack([torch.zeros(2), task.optimum]), stage="start")
        >>> torch.equal(archive.best, task.optimum), archive.left
        (True, 1)
    """

    def __init__(self, oracle: Oracle, queries: int, *, caution: float = 0.0, rows: int = 1000) -> None:
        self.oracle = oracle
        self.queries = queries
        self.caution = caution
        self.points = torch.zeros(0, oracle.dim)
        self.costs = torch.zeros(0)
        self.best, self.best_cost = torch.zeros(oracle.dim), math.inf
        self.plain, self.plain_cost = self.best, self.best_cost
        self._returned, self._returned_cost = self.best, self.best_cost
        self._rows = rows
        self._pending: dict[int, tuple[Tensor, Tensor, bool]] = {}  # points under way, what they show, whether plain
        self._fresh: list[tuple[Tensor, Tensor, Tensor]] = []
        self._free = 0  # queries that were not plain
        self._last_plain = 0
        self._incumbents: list[tuple[int, Tensor]] = []
        self._plains: list[tuple[int, Tensor]] = []

    @property
    def left(self) -> int:
        """Queries not yet made; none once the metric has failed too often."""
        return 0 if self.oracle.ledger.stopped else self.queries - self.made

    @property
    def made(self) -> int:
        """Queries made, those under way among them."""
        return len(self.costs) + len(self._pending)

    def pending(self, *, plain: bool = False) -> bool:
        """Whether answers are still to come: to any query, or to a plain one."""
        return any(own or not plain for _, _, own in self._pending.values())

    def wait(self, *, plain: bool = False) -> None:
        """Receive answers until none is pending."""
        while self.pending(plain=plain):
            self.receive()

    def receive(self) -> None:
        """Take in the next answer to a query under way, waited for if need be."""
        received = self.oracle.receive()
        if received is None:
            return
        number, cost = received
        point, shown, plain = self._pending.pop(number)
        self._take(point, shown, torch.tensor([cost]), plain=plain)

    def observe(self, points: Tensor, *, stage: str, plain: bool = False) -> None:
        """Query as many of the points as the limit allows, all in one call.

        Where workers are asked, they are on their way as soon as there is room for them: answers to others are taken
        in meanwhile, one at a time, and these come later (`wait`).

        Args:
            points: Vectors, (n, dim).
            stage: Name under which the queries are written down.
            plain: Whether nothing but starts and shifts has led to them.
        """
        points = points[: self.left]
        if not len(points):
            return
        if self.oracle.crew is not None:
            for point in points:
                self._send(point[None], stage=stage, plain=plain)
            return
        costs = self.oracle.observe(points, stage=stage).float()
        self._take(points, self.oracle.shown(points, rows=self._rows), costs, plain=plain)

    def _send(self, point: Tensor, *, stage: str, plain: bool) -> None:
        while not self.oracle.room:
            self.receive()
        if self.left:  # answers on the way may have been failures
            self.send(point, stage=stage, plain=plain)

    def send(self, point: Tensor, *, stage: str, plain: bool = False) -> None:
        """Have workers asked about one point (1, dim), whether or not there is room."""
        number = self.oracle.send(point, stage=stage)
        self._pending[number] = point, self.oracle.shown(point, rows=self._rows), plain

    def _take(self, points: Tensor, shown: Tensor, costs: Tensor, *, plain: bool) -> None:
        self.points, self.costs = torch.cat([self.points, points]), torch.cat([self.costs, costs])
        self._fresh.append((points, shown, costs))
        lowest, index = torch.nan_to_num(costs, nan=math.inf).min(0)
        cost, point = float(lowest), points[index].clone()
        self._free += 0 if plain else len(points)
        self._last_plain = len(self.costs) - 1 if plain else self._last_plain
        if plain and cost < self.plain_cost:
            self.plain, self.plain_cost = point, cost
        if cost < self.best_cost:
            self.best, self.best_cost = point, cost
        self._judge(point, cost, plain=plain)
        self._remember()

    def settle(self) -> None:
        """Take the last plain point for the best of these, unless the lowest one is better by more than luck.

        It is there for another reason than its answer: the smooth curve that is lowest there. What breaks a constraint
        or looks no better than the original is not settled on.
        """
        point, cost = self.points[self._last_plain], float(self.costs[self._last_plain])
        broken = self.oracle.ledger.queries[self._last_plain - len(self.costs)].violation > 0
        if broken or math.isnan(cost) or cost >= float(self.costs[0]):
            return
        if self._ahead(self.plain, self.plain_cost, point, cost, _SETTLED):
            return
        if torch.equal(self._returned, self.plain):
            self._return(point, cost)
        self.plain, self.plain_cost = point, cost
        self._remember()

    def _remember(self) -> None:
        self._incumbents.append((len(self.costs), self._returned))
        self._plains.append((len(self.costs), self.plain))

    def _judge(self, point: Tensor, cost: float, *, plain: bool) -> None:
        """Return the point instead of the one returned so far if its gain is more than luck.

        The lowest of many noisy costs is partly luck: among n points as good as each other the best one looks better
        by sqrt(2 ln n) standard errors of the paired difference on the same rows. So much, times `caution`, has one of
        n points found in all directions of phi to be ahead of the best plain one, and `caution` standard errors ahead
        of the one returned so far. A plain one has not: starts do not look at the metric, shifts have few directions.
        The search itself goes on from the lowest cost: held back like this too, it took twice the queries.
        """
        if cost >= self._returned_cost:
            return
        luck = self.caution * math.sqrt(2 * math.log(max(2, self._free)))
        if plain or (
            self._ahead(point, cost, self.plain, self.plain_cost, luck)
            and self._ahead(point, cost, self._returned, self._returned_cost, self.caution)
        ):
            self._return(point, cost)

    def _return(self, point: Tensor, cost: float) -> None:
        self._returned, self._returned_cost = point, cost
        fields = {"index": len(self.oracle.ledger.queries) + len(self._pending) - 1, "phi": point, "cost": cost}
        self.oracle.ledger.note("incumbent", fields)

    def _ahead(self, point: Tensor, cost: float, other: Tensor, its_cost: float, caution: float) -> bool:
        """Whether a point is better than another one by so many standard errors."""
        gain = its_cost - cost
        if gain <= 0 or not caution or gain == math.inf:
            return gain > 0
        return gain > caution * self.oracle.doubt(point, other)

    def asked(self, points: Tensor) -> Tensor:
        """Which of the points (n, dim) have been queried before, up to rounding, answered or not, (n,)."""
        known = torch.cat([self.points, *(point for point, _, _ in self._pending.values())])
        return (torch.cdist(points, known, compute_mode="donot_use_mm_for_euclid_dist") < _SAME).any(1)

    def fresh(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Points answered since this was last asked, what was shown of them, and their costs, call by call."""
        fresh, self._fresh = self._fresh, []
        answered = [~costs.isnan() for _, _, costs in fresh]
        return [
            (p[known], shown[known], costs[known]) for (p, shown, costs), known in zip(fresh, answered, strict=True)
        ]

    def known(self) -> tuple[Tensor, Tensor]:
        """Points and costs of the queries that were answered."""
        answered = ~self.costs.isnan()
        return self.points[answered], self.costs[answered]

    def outcome(self) -> Outcome:
        """The best point that was more than luck, the best plain one, and which these were after each call."""
        if self.best_cost == math.inf:
            raise ObservationError(f"none of {len(self.costs)} metric queries was answered; see the warnings above")
        return Outcome(self._returned, tuple(self._incumbents), tuple(self._plains))
