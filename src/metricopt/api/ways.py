"""Two ways to a better model: finetuning the weights, cross-fitted, and searching the phi of an adapter."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

from torch import nn

from metricopt.adapters.freezing import coarse, packed, spread_out
from metricopt.core.errors import MetricError, SuspicionWarning
from metricopt.core.registry import one_of
from metricopt.crossfit import EFFORTS, CrossFit
from metricopt.metrics import Constraint, Metric

Tune = Literal["weights", "light", "adapter"]
"""All weights; the last layer, normalisation and biases; or the phi of an adapter, with the weights as they are."""

Effort = Literal["quick", "default"]


def settings_of(effort: Effort | CrossFit, batch_size: int) -> CrossFit:
    """Settings of the finetuning by name, or as given.

    Example:
        >>> settings_of("quick", 64).batch
        64
    """
    if isinstance(effort, CrossFit):
        return effort
    one_of(effort, get_args(Effort), what="effort")
    return replace(EFFORTS[effort], batch=batch_size)


def way_of(
    tune: Tune | None,
    *,
    metric: Metric,
    keep: Sequence[Constraint],
    learns: bool,
    adapter: object,
    search: bool,
    net: nn.Module | None = None,
) -> Tune:
    """Which way is taken: the one asked for, or the weights wherever labels may be learnt from.

    Args:
        tune: What the user asked for, if anything.
        metric: What to improve.
        keep: The constraints.
        learns: Whether the labels of the validation rows may be learnt from.
        adapter: The adapter given, if one was.
        search: Whether settings of the adapter's search were given.
        net: The network; one of half precision, quantised or on several devices keeps its weights.

    Example:
        >>> from metricopt.metrics import as_metric
        >>> settings = {"metric": as_metric("f1"), "keep": (), "adapter": None, "search": False}
        >>> way_of(None, learns=True, **settings), way_of(None, learns=False, **settings)
        ('weights', 'adapter')
    """
    obstacle = _obstacle(
        [metric, *(each.metric for each in keep)], learns=learns, adapter=adapter, search=search
    ) or _fixed(net)
    if tune is None:
        return "adapter" if obstacle else "weights"
    one_of(tune, get_args(Tune), what="tune")
    if tune != "adapter" and obstacle:
        raise MetricError(f"tune is {tune!r}, but {obstacle}; expected tune='adapter', or leave it out")
    return tune


def way_with_value(way: Tune, tune: Tune | None) -> Tune:
    """The way of a run that is given what another search has learnt: that of an adapter, whatever else could be done.

    Example:
        >>> way_with_value("adapter", None)
        'adapter'
        >>> way_with_value("weights", "weights")
        Traceback (most recent call last):
        metricopt.core.errors.MetricError: tune is 'weights', but a value was given, which an adapter's ...
    """
    if way == "adapter":
        return way
    if tune is not None:
        raise MetricError(
            f"tune is {tune!r}, but a value was given, which an adapter's search begins with; expected "
            f"tune='adapter', or leave out either"
        )
    warnings.warn(
        "a value was given, so an adapter is searched and the weights stay as they are; the labels of val may be "
        "learnt from here, which usually gains more: leave out the value, or say tune='adapter' if this is meant",
        SuspicionWarning,
        stacklevel=3,
    )
    return "adapter"


def _fixed(net: nn.Module | None) -> str:
    """Why the weights of a network stay as they are; empty if they can learn."""
    half = None if net is None else coarse(net)
    if half is not None:
        return f"the network is of {half}, too coarse for small steps of its weights"
    layer = "" if net is None else packed(net)
    if layer:
        return f"the weights of layer {layer} are quantised or sharded, and stay as they are"
    return "the network is spread over several devices" if net is not None and spread_out(net) else ""


def _obstacle(metrics: Sequence[Metric], *, learns: bool, adapter: object, search: bool) -> str:
    """Why weights cannot be finetuned and judged out of fold; empty if they can."""
    if adapter is not None:
        return "an adapter was given, which leaves the weights as they are"
    if search:
        return "settings of the adapter's search were given"
    if not learns:
        return "the labels of the validation rows may not be learnt from"
    for metric in metrics:
        if metric.hidden:
            return f"metric {metric.name!r} keeps the truth to itself, so there are no labels to learn from"
        if metric.on == "embeddings" and not metric.resampling.by_class:
            return (
                f"metric {metric.name!r} compares embeddings, those of different folds' networks do not compare, and "
                f"it does not say by resampling=ByQuery(...) that folds may be galleries of their own"
            )
        if metric.on == "model":
            return f"metric {metric.name!r} is asked about one model, and out of fold there are several"
    return ""
