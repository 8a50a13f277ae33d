"""Output biases by asking the metric: a smooth curve for one output, a coordinate search for several."""

import math

import torch
from torch import Tensor

from metricopt_lab.rivals.weights.asking import Asked

FIRST_OFFSET, LAST_OFFSET = 1.0, 0.03
CURVE_POINTS = 40


def tuned_bias(asked: Asked, outputs: Tensor, *, calls: int) -> tuple[Tensor, float]:
    """A bias for outputs (n,) or (n, classes), and its cost by the rows that chose it.

    It may end before its calls do: more than a curve shows, or offsets that the rows cannot resolve, would only fit
    their noise.

    Args:
        asked: The metric.
        outputs: Of the rows that `asked` is about.
        calls: How many calls may be spent, at least 1.

    Example:
        >>> from metricopt.data.dataset import Examples
        >>> from metricopt.metrics import mcr
        >>> scores, truth = torch.arange(8.0), torch.arange(8) > 4
        >>> asked = Asked(mcr(), Examples(scores[:, None], truth.long()), calls=40)
        >>> bias, cost = tuned_bias(asked, scores, calls=40)
        >>> -5 < float(bias) < -4, cost, asked.used <= 40
        (True, 0.0, True)
    """
    end = asked.left - calls
    if outputs.ndim == 1:
        return _on_a_curve(asked, outputs, end)
    start, cost = torch.zeros(outputs.shape[1]), float(asked.costs(outputs[None])[0])
    if asked.left <= end or _indifferent(asked, outputs, cost):
        return start, cost
    return _coordinate_search(asked, outputs, start, cost, end)


def _indifferent(asked: Asked, outputs: Tensor, cost: float) -> bool:
    """Whether the metric does not see shifts of outputs, as rankings by single logits do not."""
    pushed = torch.linspace(-2.0, 2.0, outputs.shape[1])
    return bool((asked.costs((outputs + pushed)[None]) == cost).all())


def _coordinate_search(asked: Asked, outputs: Tensor, bias: Tensor, cost: float, end: int) -> tuple[Tensor, float]:
    """Each class in turn up and down by an offset, which halves once no class gained."""
    offset = FIRST_OFFSET
    while asked.left > end and offset > LAST_OFFSET:
        before = cost
        for axis in torch.eye(len(bias)):
            tried = (bias + torch.tensor([-offset, offset])[:, None] * axis)[: max(0, asked.left - end)]
            costs = asked.costs(outputs + tried[:, None])
            if len(costs) and float(costs.min()) < cost:
                bias, cost = tried[int(costs.argmin())], float(costs.min())
        if cost >= before:
            offset /= 2
    return bias, cost


def _on_a_curve(asked: Asked, outputs: Tensor, end: int) -> tuple[Tensor, float]:
    """The lowest point of a smooth curve through answers at quantiles of the logits."""
    zero, cost = torch.zeros(()), float(asked.costs(outputs[None])[0])
    points = min(CURVE_POINTS, asked.left - end) // 2
    thresholds = outputs.double().quantile(torch.linspace(0.02, 0.98, points, dtype=torch.float64))
    shifts, costs = _answers(asked, outputs, -thresholds, end)
    if len(costs) == 0 or float(costs.max() - costs.min()) == 0:
        return zero, cost
    best = int(costs.argmin())
    low, high = shifts[min(best + 1, len(shifts) - 1)], shifts[max(best - 1, 0)]
    near = torch.linspace(0, 1, points + 2, dtype=torch.float64)[1:-1]
    more, answers = _answers(asked, outputs, low + (high - low) * near, end)
    shifts, costs = torch.cat([shifts, more, zero[None].double()]), torch.cat([costs, answers, torch.tensor([cost])])
    smooth = _smoothed(_ranks(outputs, shifts), costs)
    best = int(smooth.argmin())
    return shifts[best].float(), float(costs[best])


def _answers(asked: Asked, outputs: Tensor, shifts: Tensor, end: int) -> tuple[Tensor, Tensor]:
    shifts = shifts[: max(0, asked.left - end)]
    return shifts, asked.costs(outputs + shifts.to(outputs.dtype)[:, None])


def _ranks(outputs: Tensor, shifts: Tensor) -> Tensor:
    """Share of rows above the threshold, a scale on which metrics are smooth."""
    return (outputs + shifts[:, None] > 0).double().mean(1)


def _smoothed(shares: Tensor, costs: Tensor) -> Tensor:
    """Local quadratic fits at every point, weighed by a bell over logits of the shares."""
    place = (shares.clamp(1e-4, 1 - 1e-4)).logit()
    width = 0.35
    found = []
    for here in place:
        gap = (place - here) / width
        weight = (-0.5 * gap.square()).exp()
        basis = torch.stack([torch.ones_like(gap), gap, gap.square()], 1)
        system = basis.T @ (weight[:, None] * basis) + 1e-3 * torch.eye(3, dtype=torch.float64)
        found.append(torch.linalg.solve(system, basis.T @ (weight * costs))[0])
    return torch.stack(found) if found else torch.tensor([math.inf])
