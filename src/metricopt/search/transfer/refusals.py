"""Whether a value function serves a place, and if not, by which difference."""

from metricopt.core.errors import FileFormatError
from metricopt.search.transfer.carried import KINDS, CarriedValue, Kind
from metricopt.search.transfer.place import Place


def fitting_kind(value: CarriedValue, here: Place) -> Kind:
    """The kind that is made use of here: the one asked for, or the first that fits; an error that says why none does.

    Example:
        >>> import torch
        >>> there = Place("f1", "max", "labels", "FiLM of 2, seed 0", 1, "a", "original")
        >>> value = CarriedValue(there, torch.zeros(1), torch.zeros(1, 2), torch.zeros(1, 5, 1), torch.zeros(1, 18))
        >>> here = Place("g_mean", "max", "labels", "FiLM of 4, seed 0", 1, "b", "original")
        >>> fitting_kind(value, here)
        'statistics'
        >>> fitting_kind(value.only("phi"), here)
        Traceback (most recent call last):
        metricopt.core.errors.FileFormatError: the value function is of phi with the layout 'FiLM of 2, seed 0', ...
    """
    kinds: tuple[Kind, ...] = KINDS if value.kind is None else (value.kind,)
    obstacles = {kind: obstacle(value, here, kind) for kind in kinds}
    fitting: list[Kind] = [kind for kind in kinds if not obstacles[kind]]
    if not fitting:
        raise FileFormatError(
            f"{next(iter(obstacles.values()))}; expected the same: leave the value out, or learn another"
        )
    return fitting[0]


def _view(place: Place) -> str:
    """What the metric looks at; the score of a single logit has its order, so that these two are one view."""
    return "scores" if place.on == "logits" and place.outputs == 1 else place.on


def obstacle(value: CarriedValue, here: Place, kind: Kind) -> str:
    """Why a value function cannot be used here in this way, with the difference named; empty if it can.

    Example:
        >>> import torch
        >>> there, here = (Place("f1", goal, "labels", "FiLM of 2, seed 0", 1, "a") for goal in ("max", "min"))
        >>> value = CarriedValue(there, torch.zeros(1), torch.zeros(1, 2), torch.zeros(1, 5, 1), torch.zeros(1, 0))
        >>> obstacle(value, here, "phi")
        "the value function was learnt for a metric with goal='max', and this one has goal='min'"
    """
    there = value.place
    if there.goal != here.goal:
        return (
            f"the value function was learnt for a metric with goal={there.goal!r}, and this one has goal={here.goal!r}"
        )
    if kind == "search":
        return ""
    if kind == "phi":
        if there.layout == here.layout:
            return ""
        return f"the value function is of phi with the layout {there.layout!r}, and here it is {here.layout!r}"
    if there.outputs != here.outputs:
        return f"the value function is about {there.outputs} outputs (classes), and here there are {here.outputs}"
    if _view(there) != _view(here):
        return f"the value function views {there.on!r}, and this metric is given {here.on!r}"
    if kind == "predictions" and (there.rows != here.rows or not value.outputs.numel()):
        return "the value function is of predictions for other rows than those of val"
    if kind == "statistics" and (there.against != here.against or not value.statistics.numel()):
        return (
            f"the value function is of statistics beside {there.against or 'nothing'!r}, and here they are beside "
            f"{here.against or 'nothing'!r}"
        )
    return ""
