"""The ways of finetuning that a practitioner tries."""

from dataclasses import dataclass
from itertools import product

RATES = (4e-3,)
"""Adam's first rates: the metric chooses where there are several."""


@dataclass(frozen=True)
class Variant:
    """One way of finetuning.

    Attributes:
        last_layer: Whether only the last layer learns.
        balanced: Whether classes are drawn equally often.
        mix: Training rows for each validation row.
        rate: Adam's first rate.

    Example:
        >>> Variant(last_layer=False, balanced=True, mix=1.0, rate=4e-3).name
        'all balanced mixed .004'
    """

    last_layer: bool
    balanced: bool
    mix: float
    rate: float

    @property
    def name(self) -> str:
        """In words."""
        words = ("last" if self.last_layer else "all", "balanced" if self.balanced else "plain")
        return " ".join((*words, "mixed" if self.mix else "alone", f"{self.rate:g}".removeprefix("0")))


USUAL = tuple(Variant(*each) for each in product((True, False), (False, True), (0.0, 1.0), RATES))
"""With the loss of pre-training."""

RANKING = tuple(Variant(*each) for each in product((True, False), (False,), (0.0, 1.0), RATES))
"""With a loss about the order of scores, which classes drawn equally often would distort."""
