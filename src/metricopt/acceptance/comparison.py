"""What the comparison of two models, and the check of a constraint, say."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Comparison:
    """Two models on the same examples, in the metric's natural units.

    Attributes:
        before: Value of the original model.
        after: Value of the new one.
        interval: Interval of the gain, `after` - `before` turned so that positive is better.
        level: Level of that two-sided interval.
        confidence: Probability that the new model is better: the share of the resamples in which it strictly is.
        resamples: Resamples, or parts of the rows, that gave a number.
        examples: Rows compared on.
        rows: What kind of rows these are: "held-out" from everything; "out-of-fold", each predicted by networks that
            have not seen it; or "searched", which the metric was asked about in the search. The interval of the last
            is that of the gain without what the luck of the search explains of it; `after` is as these rows show it.
        refit: Value, on rows that it has learnt from, of the network that would be returned where `after` is that of
            the networks of the folds; None where they are the same.
        judged: How many models were judged against the original; they share the error that is allowed.

    Example:
        >>> gain = Comparison(0.20, 0.18, (0.01, 0.03), level=0.9, confidence=0.99, resamples=500, examples=1000)
        >>> gain.accepted, gain.interval_text
        (True, '90% interval')
        >>> print(gain)
        0.2000 -> 0.1800 on 1000 held-out examples, gain +0.0100 .. +0.0300 (90% interval)
    """

    before: float
    after: float
    interval: tuple[float, float]
    level: float
    confidence: float
    resamples: int
    examples: int
    rows: str = "held-out"
    refit: float | None = None
    judged: int = 1

    @property
    def interval_text(self) -> str:
        """What kind of interval it is, and why it is a wider one than was asked for where it is."""
        return f"{self.level:.0%} interval" + (f", as {self.judged} models were judged" if self.judged > 1 else "")

    @property
    def accepted(self) -> bool:
        """Whether the whole interval of the gain lies above zero, and the metric answered on all rows for both.

        What is refitted on all rows has to be better than the original on them too, or something went wrong.
        """
        known = not math.isnan(self.before) and not math.isnan(self.after)
        sound = self.refit is None or (self.refit - self.before) * (self.after - self.before) > 0
        return self.interval[0] > 0 and known and sound

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"{self.before:.4f} -> {self.after:.4f} on {self.examples} {self.rows} examples, "
            f"gain {low:+.4f} .. {high:+.4f} ({self.interval_text})"
        )


@dataclass(frozen=True)
class Kept:
    """A constraint on the held-out examples, in its metric's natural units.

    Attributes:
        text: The constraint.
        before: Value of the original model.
        after: Value of the new one.
        bound: One-sided bound of the new one's value, at the constraint's confidence.
        confidence: That confidence.
        holds: Whether the bound, not only the value, keeps the constraint.

    Example:
        >>> Kept("precision >= 0.8", 0.85, 0.83, 0.81, confidence=0.9, holds=True).holds
        True
    """

    text: str
    before: float
    after: float
    bound: float
    confidence: float
    holds: bool
