"""A value function to take along: answers of one search with what was seen of them, and what they are about."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, final, get_args

from torch import Tensor

from metricopt.core.errors import FileFormatError
from metricopt.core.registry import one_of
from metricopt.search.transfer.place import Place

Kind = Literal["predictions", "phi", "statistics", "search"]
"""What a value is a function of, or for "search" the settings of a search alone."""

KINDS: tuple[Kind, ...] = get_args(Kind)
"""The kinds, the one that says most first."""


@final
@dataclass(frozen=True, eq=False)
class CarriedValue:
    """What a search has learnt, as something that another one can begin with: `optimize(..., value=...)`.

    Attributes:
        place: What it was learnt about.
        costs: Answers, (n,); that of the original first.
        points: The phi asked about, (n, dim).
        outputs: What the metric was shown, (n, rows, columns), in half precision; none where nothing can be read.
        statistics: Of these outputs, (n, features); none where they are not classes.
        settings: Of the search at its end: `radius`, `length` (in median distances), `noise` (of the signal).
        about: Whatever else is to be known: data, network, queries.
        kind: What is made use of; None for the first of the kinds that fits.

    Example:
        >>> import torch
        >>> place = Place("f1", "max", "labels", "FiLM of 2, seed 0", 1, "a", "original")
        >>> value = CarriedValue(place, torch.tensor([0.4, 0.3]), torch.zeros(2, 2), torch.zeros(2, 5, 1).half(),
        ...                      torch.zeros(2, 18))
        >>> value.only("phi").kind, len(value)
        ('phi', 2)
    """

    place: Place
    costs: Tensor
    points: Tensor
    outputs: Tensor
    statistics: Tensor
    settings: Mapping[str, float] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    kind: Kind | None = None

    def __post_init__(self) -> None:
        counts = {name: len(part) for name, part in self.tensors.items() if part.numel() or name in ("costs", "points")}
        if len(set(counts.values())) != 1 or not len(self.costs):
            raise FileFormatError(f"the value function has {counts} rows; expected as many of each: save it again")
        if not all(bool(part.isfinite().all()) for part in self.tensors.values()):
            raise FileFormatError(
                "the value function has numbers that are not finite; expected finite ones: learn it again"
            )

    def __len__(self) -> int:
        return len(self.costs)

    def only(self, kind: Kind) -> "CarriedValue":
        """The same, to be used in one way; if that does not fit, it is refused instead of another one taken."""
        one_of(kind, KINDS, what="kind of value function")
        return replace(self, kind=kind)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name."""
        return {name: getattr(self, name) for name in ("costs", "points", "outputs", "statistics")}
