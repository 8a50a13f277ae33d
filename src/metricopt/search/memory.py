"""What was seen of the points answered so far: as many of them as a value function can be fitted to in no time."""

from collections.abc import Sequence

import torch
from torch import Tensor

from metricopt.search.view_gp import squared_distances
from metricopt.task.views import View

LIMIT = 500
"""Points that are remembered. Fitted to all of them, a search of 5,000 queries would take the cube of their number."""


class Memory:
    """Answered points near the best one, what each view shows of them, and how far apart they are in it.

    Distances are computed once, when a point comes in. Nothing is forgotten up to `limit` points.

    Attributes:
        points: Those remembered, (n, dim).
        costs: Their costs, (n,).
        taken: How many were ever taken in.

    Example:
        >>> from metricopt.task.views import RAW
        >>> memory, points = Memory((RAW,), limit=2), torch.tensor([[0.0], [1.0], [5.0]])
        >>> memory.add(points, points[:, None], torch.tensor([0.2, 0.1, 0.3]))
        >>> memory.forget(RAW)
        >>> memory.points.tolist(), memory.squares(RAW).tolist(), memory.taken
        ([[0.0], [1.0]], [[0.0, 1.0], [1.0, 0.0]], 3)
    """

    def __init__(self, views: Sequence[View], *, limit: int = LIMIT) -> None:
        self._views, self._limit = tuple(views), limit
        self._seen: dict[str, tuple[Tensor, Tensor]] = {}
        self.points, self.costs, self.taken = torch.zeros(0, 0), torch.zeros(0), 0

    def add(self, points: Tensor, outputs: Tensor, costs: Tensor) -> None:
        """Take in points (n, dim), what was shown of them, (n, rows, columns), and their finite costs (n,)."""
        if not len(points):
            return
        for view in self._views:
            self._seen[view.name] = _extended(self._seen.get(view.name), view.features(outputs))
        self.points = torch.cat([self.points, points]) if len(self.points) else points
        self.costs, self.taken = torch.cat([self.costs, costs]), self.taken + len(points)

    def features(self, view: View) -> Tensor:
        """What is seen of the points in a view, (n, features)."""
        return self._seen[view.name][0]

    def squares(self, view: View) -> Tensor:
        """Squared distances between these, (n, n)."""
        return self._seen[view.name][1]

    def forget(self, view: View) -> None:
        """Keep as many as the limit allows: those that look most like the best one in a view, in the order they came.

        That is where the search goes on; what is far away tells least about it.
        """
        if len(self.costs) <= self._limit:
            return
        apart = self.squares(view)[self.costs.argmin()]
        kept = apart.argsort(stable=True)[: self._limit].sort().values
        self.points, self.costs = self.points[kept], self.costs[kept]
        self._seen = {
            name: (features[kept], squares[kept][:, kept]) for name, (features, squares) in self._seen.items()
        }


def _extended(known: tuple[Tensor, Tensor] | None, fresh: Tensor) -> tuple[Tensor, Tensor]:
    """Features and squared distances with those of fresh points below and beside them."""
    if known is None:
        return fresh, squared_distances(fresh, fresh)
    features = torch.cat([known[0], fresh])
    below = squared_distances(fresh, features)  # (fresh, all)
    beside = below[:, : len(known[0])].T
    return features, torch.cat([torch.cat([known[1], beside], 1), below])
