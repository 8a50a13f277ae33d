"""Settings of cross-fitted finetuning, and what each effort makes of them."""

from dataclasses import dataclass, replace

from metricopt.core.errors import BudgetError

CROSSFIT_VERSION = 3
"""Raised whenever the same arguments give other bits."""

ONE_RATE_VERSION = 2
"""The same for settings with a single rate, with which no other lengths are tried: changes to these pass it by."""

DETECTOR_VERSION = 3
"""The same for detectors finetuned at a single rate, whose background is lowered besides."""

WIDENING = 1.25
"""Standard errors of out-of-fold gains are too small by this: choices were made on the rows (docs/recipe-notes.md)."""


DETECTOR_RATES = (5e-4, 2e-4)
"""Chosen with what learns on training images of BCCD under a shift of their own (contrast .6, 2% salt; AP50 on 45 of
them, .678 as trained, 127 others to learn from). The second stage alone, 6 epochs at 1e-3: .749; both stages, 4
epochs at 1e-3 and 3e-4: .894 and .894; with the pyramid .919 at 5e-4 and, 6 epochs at 1e-3 and 3e-4, .903 and
.913."""


@dataclass(frozen=True)
class Kind:
    """One way of finetuning.

    Attributes:
        balanced: Whether classes are drawn equally often.
        mix: Training rows for each validation row.
        ranks: Whether a loss about the order of scores is followed instead of the user's.
        last: Whether only the last layer learns.

    Example:
        >>> Kind(balanced=True, mix=1.0).name
        'balanced'
    """

    balanced: bool
    mix: float
    ranks: bool = False
    last: bool = False

    @property
    def name(self) -> str:
        """What it is called in plans and logs."""
        drawn = "ranks" if self.ranks else "balanced" if self.balanced else "mixed" if self.mix else "alone"
        return f"last {drawn}" if self.last else drawn


_KINDS = (Kind(False, 1.0), Kind(True, 1.0), Kind(False, 0.0), Kind(False, 1.0, ranks=True))


@dataclass(frozen=True)
class CrossFit:
    """How the weights are finetuned, fold by fold, and what the metric is asked about then.

    Attributes:
        folds: Parts of the validation rows.
        epochs: Passes over a network's validation rows, twice as many where there is much to learn; no early stopping.
        lengths: Shares of these epochs that are tried for the first kind, if there is time for two rates; the loss of
            rows left out says which one all kinds take.
        batch: Rows a step.
        rates: First rates of Adam that are tried for a moment; the better two by the loss of rows left out are tried in
            full for the first kind.
        kinds: The finetunings of each fold and of all rows. Balanced ones need classes; those that rank, a metric of
            scores too; those of the last layer, one that is linear.
        alphas: How far to go from the original towards the mean of the best kinds, besides all the way.
        tuned: How many of the best mixtures get output biases.
        seconds: About how long finetuning may take; of what would take longer, less is done.
        share: Of its rows, how many a network is shown in an epoch; less than all of them if it is slow.

    Example:
        >>> CrossFit(folds=1)
        Traceback (most recent call last):
        ...
        metricopt.core.errors.BudgetError: folds is 1; expected 2 or more, so that every row is left out once
    """

    folds: int = 4
    epochs: int = 24
    lengths: tuple[float, ...] = (1.0, 1 / 4, 1 / 12)
    batch: int = 256
    rates: tuple[float, ...] = (8e-3, 2.5e-3, 8e-4, 2.5e-4, 6e-5)
    kinds: tuple[Kind, ...] = (*_KINDS, *(replace(kind, last=True) for kind in _KINDS))
    alphas: tuple[float, ...] = (0.5, 0.75)
    tuned: int = 3
    seconds: float = 300.0
    share: float = 1.0

    def __post_init__(self) -> None:
        if self.folds < 2:
            raise BudgetError(f"folds is {self.folds}; expected 2 or more, so that every row is left out once")

    def fitting(self, *, classes: bool, ranks: bool) -> "CrossFit":
        """The same without kinds that make no sense: where targets are no classes, or the metric is not of scores."""
        kinds = [kind for kind in self.kinds if (classes or not kind.balanced) and (ranks or not kind.ranks)]
        return replace(self, kinds=tuple(kinds))

    def of_detector(self) -> "CrossFit":
        """The same for what is behind a detector's body, whose steps take long: fewer rates, and no training images.

        Unless rates or kinds were chosen.
        """
        kinds = tuple(sorted(self.kinds, key=lambda kind: kind.mix)) if self.kinds == DEFAULT.kinds else self.kinds
        return replace(self, kinds=kinds, rates=DETECTOR_RATES if self.rates == DEFAULT.rates else self.rates)

    @property
    def of_all_weights(self) -> tuple[Kind, ...]:
        """The kinds in which all weights learn that may."""
        return tuple(kind for kind in self.kinds if not kind.last)

    @property
    def of_last_layer(self) -> tuple[Kind, ...]:
        """The kinds in which the last layer learns."""
        return tuple(kind for kind in self.kinds if kind.last)


DEFAULT = CrossFit()
QUICK = CrossFit(folds=3, epochs=12, seconds=90.0)
EFFORTS = {"quick": QUICK, "default": DEFAULT}
