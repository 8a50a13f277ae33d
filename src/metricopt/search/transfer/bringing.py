"""A carried value function brought to a search: in which way it is used there, and beside which rows."""

from dataclasses import dataclass
from typing import final

import torch

from metricopt.search.transfer.carried import CarriedValue, Kind
from metricopt.search.transfer.forecast import Forecast, Original
from metricopt.search.transfer.place import TOLD, place_of, reference_of
from metricopt.search.transfer.refusals import fitting_kind
from metricopt.search.transfer.settings import CarriedSettings, settings_from
from metricopt.search.transfer.warm import WarmStart
from metricopt.task.supervised import SupervisedTask


@final
@dataclass(frozen=True, eq=False)
class Bringing:
    """What was carried, checked against where it is to be used.

    Attributes:
        value: The value function.
        kind: In which way it is used.
        queries: Of the search, of which it may waste a tenth.
        same_metric: Whether it was learnt for the same metric, so that its costs mean the same here.
        original: The original model's outputs, for statistics.
    """

    value: CarriedValue
    kind: Kind
    queries: int
    same_metric: bool
    original: Original | None = None

    def parts(self) -> tuple[WarmStart | None, CarriedSettings | None]:
        """What a search begins with."""
        if self.kind == "search":
            return None, settings_from(self.value.settings)
        forecast = Forecast(self.value, self.kind, self.original)
        return WarmStart(forecast, queries=self.queries, same_metric=self.same_metric), None


def brought(value: CarriedValue, task: SupervisedTask, *, queries: int, rows: int) -> Bringing:
    """A value function for the search of a task; refused with the difference named if it is about something else.

    Args:
        value: What was carried.
        task: Where it is to be used.
        queries: Of the search.
        rows: Rows that are looked at.
    """
    here = place_of(task, rows=rows)
    kind = fitting_kind(value, here)
    original = None
    if kind == "statistics":
        outputs = task.probe().shown(torch.zeros(1, task.dim), rows=rows)[0]
        original = Original(outputs, reference_of(task, outputs, rows=rows))
    # A study does not know what it is told about, and costs without bounds begin at the original they were about.
    known = task.metric.name != TOLD and not task.metric.unbounded
    return Bringing(value, kind, queries, known and value.place.metric == here.metric, original)
