"""The ways of finetuning that a practitioner tries.

Adam's rates were chosen on twelve development problems (all with visible labels but images; seed 0, of four also
seed 1), by the mean normalised gain of finetune_bias / finetune_refit_bias / wise_ft / greedy_soup at 150 calls:
- 2e-3 alone .18 / .09 / .32 / .47;
- 2e-3 and 8e-3, the metric choosing among all networks .26 / .17 / .39 / .54, the loss choosing the rate of each
  variant .21 / .13 / .37 / .46;
- 1e-3 and 4e-3, the metric .32 / .30 / .31 / .43, the loss .44 / .44 / .39 / .48;
- 1e-3 and 8e-3, the metric .33 / .31 / .48 / .50, the loss .37 / .35 / .54 / .63: taken, best on average;
- all of 1e-3, 2e-3, 4e-3 and 8e-3, the loss .40 / .32 / .41 / .55.
Letting plain finetuning stop before its first epoch changed nothing. On covtype_shift_kappa 48 epochs instead of 24
gained 1 to 8 points of about 30, on adult_small_f1 and adult_aucpr they lost .1 to 2.3 (an earlier form, 4e-3).
"""

from dataclasses import dataclass
from itertools import product

RATES = (1e-3, 8e-3)
"""Adam's first rates; of each variant the one counts whose loss on the rows left out is lower."""


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
