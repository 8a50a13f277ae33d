"""What is gathered along a search, so that its value function can be taken along afterwards."""

import torch
from torch import Tensor

from metricopt.search.transfer.carried import CarriedValue
from metricopt.search.transfer.place import Place, reference_of
from metricopt.search.transfer.statistics import statistics
from metricopt.task.supervised import SupervisedTask

MOST = 120
"""Answers that are kept: half of them the best ones, the others spread over the whole search."""

MOST_BYTES = 2**26
"""Of what is gathered: with many outputs fewer answers are kept."""

LEAST = 8
"""Answers that are kept, however large they are."""


class Keepsake:
    """Takes in answers with what was seen of them, and forgets all but some.

    Attributes:
        settings: Of the search at its end, once that is over.

    Example:
        >>> keepsake = Keepsake(most=4)
        >>> keepsake.add(torch.zeros(20, 2), torch.zeros(20, 5, 1), torch.linspace(1, 0, 20))
        >>> [round(cost, 2) for cost in keepsake.costs.tolist()]
        [1.0, 0.11, 0.05, 0.0]
    """

    def __init__(self, *, most: int = MOST) -> None:
        self._most = most
        self.points, self.outputs, self.costs = torch.zeros(0, 0), torch.zeros(0, 0, 0), torch.zeros(0)
        self.settings: dict[str, float] = {}

    def add(self, points: Tensor, outputs: Tensor, costs: Tensor) -> None:
        """Take in points (n, dim), what was shown of them, (n, rows, columns), and their finite costs (n,)."""
        if not len(points):
            return
        first = not len(self.costs)
        # Half precision: beside the next answer's difference it is exact, and it is a fraction of the search's memory.
        outputs = outputs.clamp(-6e4, 6e4).half()
        an_answer = outputs[0].numel() * outputs.element_size()
        # Up to twice as many are held before some are forgotten.
        self._most = min(self._most, max(LEAST, MOST_BYTES // (2 * max(1, an_answer))))
        self.points = points.clone() if first else torch.cat([self.points, points])
        self.outputs = outputs if first else torch.cat([self.outputs, outputs])
        self.costs = costs.clone() if first else torch.cat([self.costs, costs])
        if len(self.costs) > 2 * self._most:
            self._keep(self._chosen(self._most))

    def _keep(self, chosen: Tensor) -> None:
        self.points, self.outputs, self.costs = self.points[chosen], self.outputs[chosen], self.costs[chosen]

    def _chosen(self, most: int) -> Tensor:
        """Numbers of the answers to keep, in the order they came; the first, of the original, is one of them."""
        if len(self.costs) <= most:
            return torch.arange(len(self.costs))
        best = self.costs.argsort(stable=True)[: most // 2]
        others = torch.ones(len(self.costs), dtype=torch.bool)
        others[best] = False
        rest = others.nonzero()[:, 0]
        spread = rest[torch.linspace(0, len(rest) - 1, most - len(best)).round().long()]
        return torch.cat([torch.zeros(1, dtype=torch.long), best, spread]).unique()[:most]

    def value(self, task: SupervisedTask, place: Place, *, rows: int, **about: object) -> CarriedValue | None:
        """What was gathered as a value function to take along; None of fewer than two answers."""
        if len(self.costs) < 2:
            return None
        self._keep(self._chosen(self._most))
        outputs = self.outputs if place.outputs else torch.zeros(0, 0, 0).half()
        told = torch.zeros(0, 0)
        if place.against:
            seen = self.outputs.float()
            told = statistics(seen, reference_of(task, seen[0], rows=rows))
        return CarriedValue(place, self.costs, self.points, outputs, told, self.settings, about)
