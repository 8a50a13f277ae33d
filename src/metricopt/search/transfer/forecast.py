"""What a carried value function says of points of another search, before the metric is asked about them."""

from collections.abc import Callable
from typing import NamedTuple, final

import torch
from torch import Tensor

from metricopt.search.transfer.carried import CarriedValue, Kind
from metricopt.search.transfer.statistics import statistics
from metricopt.search.view_gp import ViewGP, likeliest, squared_distances, view_gp
from metricopt.task.views import RAW, View, views_of


class Original(NamedTuple):
    """The original model here: its outputs (n, columns) and the class (n,) that each row is compared with."""

    outputs: Tensor
    reference: Tensor


@final
class Forecast:
    """A Gaussian process over phi, predictions or their statistics, fitted to the answers of another search.

    Attributes:
        points: The phi those answers were about, (n, dim), if vectors mean the same here; none otherwise.
        outputs: What was seen of them, (n, rows, columns), if rows are the same here; none otherwise.
        costs: The answers, (n,).

    Example:
        >>> from metricopt.search.transfer.place import Place
        >>> phi = torch.randn(30, 2, generator=torch.Generator().manual_seed(0))
        >>> place = Place("mcr", "min", "labels", "FiLM of 2, seed 0", 1, "a")
        >>> value = CarriedValue(place, phi[:, 0], phi, torch.zeros(0, 0, 0), torch.zeros(0, 0))
        >>> forecast = Forecast(value, "phi")
        >>> mean, std = forecast(torch.tensor([[0.5, 0.0], [-0.5, 0.0]]), torch.zeros(2, 5, 1))
        >>> bool(mean[0] > mean[1]), std.shape
        (True, torch.Size([2]))
    """

    def __init__(self, value: CarriedValue, kind: Kind, original: Original | None = None) -> None:
        self.costs = value.costs.float()
        self.points = value.points if kind == "phi" else torch.zeros(0, value.points.shape[1])
        self.outputs = value.outputs.float() if kind == "predictions" else torch.zeros(0, 0, 0)
        self._features, seen = _looking(value, kind, original)
        self._value: ViewGP = view_gp(seen, self.costs)

    def __call__(self, points: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Expected costs (n,) of points (n, dim) with outputs (n, rows, columns), and how unsure they are, (n,)."""
        return self._value.forecast(self._features(points, outputs))


Look = Callable[[Tensor, Tensor], Tensor]


def _looking(value: CarriedValue, kind: Kind, original: Original | None) -> tuple[Look, Tensor]:
    """How points and outputs are looked at, and what was seen of those answered."""
    if kind == "phi":
        return (lambda points, _: points), value.points.float()
    if kind == "predictions":
        view = _view(value)
        return (lambda _, outputs: view.features(outputs)), view.features(value.outputs.float())
    assert original is not None
    reference = original.reference
    origin = statistics(original.outputs[None], reference)[0]
    scale = value.statistics.std(0)  # each counts by how much it has varied; what never has tells nothing
    weight = torch.where(scale > 1e-6, 1 / scale.clamp_min(1e-6), 0.0) / value.statistics.shape[1] ** 0.5

    def look(_: Tensor, outputs: Tensor) -> Tensor:
        return (statistics(outputs, reference) - origin) * weight

    return look, (value.statistics - value.statistics[0]) * weight


def _view(value: CarriedValue) -> View:
    """The view in which the answers are explained best."""
    views = views_of(value.place.on) if value.place.outputs else (RAW,)
    if len(views) == 1 or len(value) < 6:
        return views[0]
    seen = [view.features(value.outputs.float()) for view in views]
    return views[likeliest([(each, squared_distances(each, each)) for each in seen], value.costs.float())]
