"""What a few answers of a metric give away: that it does not look at the predictions, or does not know its own mind."""

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from metricopt.metrics.arguments import as_array, matched
from metricopt.metrics.metric import Metric

_ENOUGH = 10  # different predictions with the same answer; fewer may well be a coarse metric
_ROUNDING = 1e-9


def constancy(metric: Metric, values: Sequence[float], outputs: Any, targets: Any) -> str:
    """One sentence if ten or more different predictions all got the same answer; otherwise nothing.

    Different as the metric sees them: outputs that say the same classes are one prediction to a metric of labels.

    Args:
        metric: The metric.
        values: Its answers about each member, NaN where it failed.
        outputs: Raw outputs of the same members, (population, n, ...).
        targets: Truth, (n, ...).

    Example:
        >>> import torch
        >>> stuck = Metric(lambda y, p: 0.5, on="labels", goal="max", name="stuck")
        >>> outputs = torch.randn(12, 50, generator=torch.Generator().manual_seed(0))
        >>> constancy(stuck, [0.5] * 12, outputs, torch.arange(50) % 2).split(",")[0]
        "metric 'stuck' gave 0.5 for each of 12 different predictions"
    """
    answered = [member for member, value in enumerate(values) if not math.isnan(value)]
    if len({values[member] for member in answered}) != 1 or not isinstance(outputs, Tensor):
        return ""
    given = outputs
    if metric.on not in ("model", "outputs"):
        given = matched(outputs, targets, None, on=metric.on, hidden=metric.hidden).predictions
    different = len({as_array(given[member]).tobytes() for member in answered})
    if different < _ENOUGH:
        return ""
    return (
        f"metric {metric.name!r} gave {values[answered[0]]:g} for each of {different} different predictions, so "
        f"nothing can be found with it: check that its function uses its second argument and that on={metric.on!r} is right"
    )


def unsteadiness(metric: Metric, first: float, again: float) -> str:
    """One sentence if a metric asked twice about the same predictions answered differently; otherwise nothing.

    Example:
        >>> metric = Metric(max, on="labels", goal="max", name="judge")
        >>> unsteadiness(metric, 0.5, 0.5), unsteadiness(metric, 0.5, 0.7).split(",")[0]
        ('', "metric 'judge' answered 0.5 and then 0.7 for the same predictions")
    """
    if math.isnan(first) or math.isnan(again) or math.isclose(first, again, rel_tol=_ROUNDING, abs_tol=_ROUNDING):
        return ""
    return (
        f"metric {metric.name!r} answered {first:g} and then {again:g} for the same predictions, so what the search "
        f"sees is partly chance: fix its random seed or average several runs in its function, if it can be had"
    )
