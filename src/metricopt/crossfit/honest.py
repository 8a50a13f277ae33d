"""Output biases that are judged on rows they were not fitted to: one for each half of the rows, fitted on the other.

A bias search on the rows that judge it finds their luck: of 150 classes with 20 rows each, a coordinate search raised
the worst recall of its own rows by .07 and lowered that of test rows by .17. Here every candidate is asked about with
each half's rows shifted by the bias found on the other half, and the bias returned is the mean of the two.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from metricopt.crossfit.asking import Asking
from metricopt.crossfit.biases import BiasSearch
from metricopt.crossfit.soft_metrics import soft_biases

SCALES = (0.5, 1.0)
_LEAST = 4  # calls that a search in one half needs


@dataclass(frozen=True, eq=False)
class Shifted:
    """A bias and how it does on rows it was not fitted to.

    Attributes:
        halves: The biases of the two halves of the rows, each fitted on the other half, (2, outputs).
        cost: Cost of all rows shifted so.
    """

    halves: Tensor
    cost: float

    @property
    def bias(self) -> Tensor:
        """What is returned, (outputs,)."""
        return self.halves.mean(0)


class HonestBias:
    """Biases for the out-of-fold outputs at one choice of weights.

    Args:
        asking: Asks the metric.
        phi: The choice of weights, (dim,).
        half_of: 0 or 1 for each row, (n,).
        cost: Cost of the outputs as they are.
    """

    def __init__(self, asking: Asking, phi: Tensor, half_of: Tensor, cost: float) -> None:
        shifts = asking.task.shifts
        assert shifts is not None
        self._asking, self._phi, self._half_of, self._shifts = asking, phi, half_of, shifts
        self.outputs = asking.task.base(phi)
        nothing = torch.zeros(2, shifts.stop - shifts.start)
        self.best = Shifted(nothing, cost)

    def search(self, *, calls: int) -> Shifted:
        """The best of no bias, biases of soft metrics, and a search in each half, by rows that none of them saw."""
        end = self._asking.left - calls
        if calls < 1 or self._indifferent():
            return self.best
        if self._by_classes:
            self._take(self._soft()[: self._room(end)], "soft biases")
        budget = (self._room(end) - len(SCALES)) // 2
        if budget >= _LEAST:
            ends = torch.stack([self._searched(half, budget) for half in (0, 1)])
            start = self.best.halves
            self._take(torch.stack([start + scale * (ends - start) for scale in SCALES]), "biases")
        return self.best

    def shown(self, halves: Tensor) -> Tensor:
        """The outputs with each half's rows shifted by its own bias, (n, ...)."""
        found = self.outputs.clone()
        for half in (0, 1):
            rows = self._half_of == half
            found[rows] = self._shifted(self.outputs[rows], halves[half])
        return found

    def phi(self, bias: Tensor) -> Tensor:
        """The weights with a bias (outputs,), as one phi (dim,)."""
        phi = self._phi.clone()
        phi[self._shifts] = bias
        return phi

    def _take(self, pairs: Tensor, stage: str) -> None:
        """Ask about pairs of biases (k, 2, outputs) and keep the best."""
        if not len(pairs):
            return
        phi = torch.stack([self.phi(pair.mean(0)) for pair in pairs])
        costs = self._asking.costs(phi, torch.stack([self.shown(pair) for pair in pairs]), stage=stage)
        if len(costs) and float(costs.min()) < self.best.cost:
            best = int(costs.argmin())
            self.best = Shifted(pairs[best], float(costs[best]))

    def _soft(self) -> Tensor:
        """Biases fitted offline to soft metrics in each half for the other, (k, 2, outputs)."""
        targets = self._asking.task.search.classes
        assert targets is not None
        parts = [self._half_of != half for half in (0, 1)]
        found = torch.stack([soft_biases(self.outputs[part], targets[part]) for part in parts], 1)
        return torch.cat([scale * found for scale in SCALES])

    def _searched(self, half: int, calls: int) -> Tensor:
        """Where a search on the other half's rows ends, from the best so far, (outputs,)."""
        rows = (self._half_of != half).nonzero()[:, 0]
        outputs = self.outputs[rows]

        def ask(biases: Tensor) -> Tensor:
            phi = torch.stack([self.phi(bias) for bias in biases])
            shown = torch.stack([self._shifted(outputs, bias) for bias in biases])
            return self._asking.costs(phi, shown, stage="biases of a half", rows=rows)

        at_once = max(1, self._asking.at_once // 2)  # each is tried down and up
        search = BiasSearch(ask, outputs, self._decides, self._scale(), at_once)
        return search(self.best.halves[half], calls=calls)

    def _indifferent(self) -> bool:
        """Whether the metric does not see shifts of outputs, as rankings by single logits do not."""
        size = len(self.best.halves[0])
        pushed = self._scale() * (torch.linspace(-2.0, 2.0, size) if size > 1 else torch.ones(1))
        shown = self._shifted(self.outputs, pushed)[None]
        costs = self._asking.costs(self.phi(pushed)[None], shown, stage="a shift of outputs")
        return not len(costs) or float(costs[0]) == self.best.cost

    def _shifted(self, outputs: Tensor, bias: Tensor) -> Tensor:
        phi = torch.zeros_like(self._phi)
        phi[self._shifts] = bias
        return self._asking.task.finished(phi, outputs)

    def _scale(self) -> Tensor:
        """A step of 1 for logits, half the spread of other outputs, (outputs,)."""
        size = len(self.best.halves[0])
        if self._decides or self._by_classes or self._asking.task.search.has_classes:
            return torch.ones(size)
        return torch.full((size,), max(0.5 * float(self.outputs.std()), 1e-6))

    @property
    def _decides(self) -> bool:
        return self._asking.task.search.has_classes and len(self.best.halves[0]) == 1

    @property
    def _by_classes(self) -> bool:
        classes = self._asking.task.search.classes
        size = len(self.best.halves[0])
        return classes is not None and self.outputs.ndim == 2 and size > 1 and int(classes.max()) < size

    def _room(self, end: int) -> int:
        return max(0, self._asking.left - end)
