"""The ways of finetuning that a practitioner tries.

Adam's rates were chosen on development problems (seed 0; ten of them, without images): 1e-3, 2e-3, 4e-3 and 8e-3 alone,
1e-3 with 4e-3, 2e-3 with 8e-3, and all four, the metric choosing among them. Mean normalised gain of finetune_bias at
150 calls .06, .16, -.03, .14, .10, .22; of finetune_refit_bias .02, .26, .08, .21, -, -; on the seven of them without
Adult, where all were tried, 2e-3 with 8e-3 had .50 at 50 calls, all four .47, the best single rate .47. wise_ft and
greedy_soup liked 1e-3 as well as the pair within noise. 48 epochs instead of 24 gained 1 to 3 of 35 points where the
population had shifted and lost up to 3 of 1 on 500 validation rows.
"""

from dataclasses import dataclass
from itertools import product

RATES = (2e-3, 8e-3)
"""Adam's first rates: the metric chooses."""


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
