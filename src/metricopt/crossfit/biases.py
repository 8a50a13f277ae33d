"""Output biases by asking the metric: a smooth curve for one output, a coordinate search for several."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

FIRST_OFFSET, LAST_OFFSET = 1.0, 0.03
CURVE_POINTS = 40
Ask = Callable[[Tensor], Tensor]
"""From biases (k, outputs) to costs of the first of them, as many as may still be asked about."""


@dataclass(frozen=True, eq=False)
class BiasSearch:
    """A search for the biases of some outputs.

    Attributes:
        ask: Costs of biases.
        outputs: The outputs of the rows that are asked about, (n,) or (n, outputs, ...).
        decides: Whether one output is a logit whose sign decides: then thresholds are what is searched.
        scale: Size of a step of 1, (outputs,).
        at_once: Outputs that are tried at the same time; the best step of all is taken.
    """

    ask: Ask
    outputs: Tensor
    decides: bool
    scale: Tensor
    at_once: int = 1

    def __call__(self, start: Tensor, *, calls: int) -> Tensor:
        """The bias where the search ends, (outputs,), after at most so many calls."""
        if calls < 1:
            return start
        return self._on_a_curve(calls) if self.decides and len(start) == 1 else self._by_coordinate(start, calls)

    def _by_coordinate(self, bias: Tensor, calls: int) -> Tensor:
        """Each output in turn down and up by an offset, which halves once none gained."""
        first = self.ask(bias[None])
        left, offset = calls - 1, FIRST_OFFSET
        if not len(first):
            return bias
        cost = float(first[0])
        steps = torch.tensor([-1.0, 1.0])[:, None]
        while left > 0 and offset > LAST_OFFSET:
            before = cost
            for axes in torch.eye(len(bias)).split(self.at_once):
                moves = (steps * axes[:, None]).flatten(0, 1)  # (axes, down and up, outputs)
                tried = (bias + offset * moves * self.scale)[: max(0, left)]
                costs = self.ask(tried) if len(tried) else torch.zeros(0)
                left -= len(tried)
                if len(costs) and float(costs.min()) < cost:
                    bias, cost = tried[int(costs.argmin())], float(costs.min())
            if cost >= before:
                offset /= 2
        return bias

    def _on_a_curve(self, calls: int) -> Tensor:
        """The lowest point of a smooth curve through answers at quantiles of the logits, then between the best two."""
        nothing = torch.zeros(1)
        logits = self.outputs.double().flatten()
        points = min(CURVE_POINTS, calls) // 2
        shifts = -logits.quantile(torch.linspace(0.02, 0.98, max(points, 1), dtype=torch.float64))
        costs = self.ask(shifts[:, None].float())
        shifts = shifts[: len(costs)]
        if len(costs) < 2 or float(costs.max() - costs.min()) == 0:
            return nothing
        best = int(costs.argmin())
        low, high = shifts[min(best + 1, len(shifts) - 1)], shifts[max(best - 1, 0)]
        near = low + (high - low) * torch.linspace(0, 1, points + 2, dtype=torch.float64)[1:-1]
        more = self.ask(near[:, None].float())
        shifts, costs = torch.cat([shifts, near[: len(more)]]), torch.cat([costs, more])
        known = costs.isfinite()
        shifts, costs = shifts[known], costs[known]
        smooth = _smoothed(_shares(logits, shifts), costs)
        return shifts[int(smooth.argmin())].float()[None] if len(shifts) else nothing


def _shares(logits: Tensor, shifts: Tensor) -> Tensor:
    """Share of rows above the threshold, a scale on which metrics are smooth."""
    return (logits + shifts[:, None] > 0).double().mean(1)


def _smoothed(shares: Tensor, costs: Tensor) -> Tensor:
    """Local quadratic fits at every point, weighed by a bell over logits of the shares, (points,)."""
    place = shares.clamp(1e-4, 1 - 1e-4).logit()
    gap = (place - place[:, None]) / 0.35  # (here, there)
    basis = torch.stack([torch.ones_like(gap), gap, gap.square()], -1)
    weighed = basis * (-0.5 * gap.square()).exp()[..., None]
    systems = weighed.mT @ basis + 1e-3 * torch.eye(3, dtype=torch.float64)
    return (
        torch.linalg.solve(systems, (weighed.mT @ costs.double()[:, None]))[:, 0, 0] if len(costs) else place + math.inf
    )
