"""Values of several candidates on the same rows, and how much they would differ on other rows of the same origin.

A cheap metric is asked on resamples of the rows (bootstrap). A dear one is asked a few times only: on all rows and with
one fold of them left out after the other (jackknife).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from scipy.stats import t as student
from torch import Tensor

from metricopt.core.errors import MetricError

Evaluate = Callable[[Tensor], Tensor]
"""From choices of rows (choices, n) to values (candidates, choices), NaN where the metric failed."""

Once = Callable[[str, Callable[[], Tensor], int], Tensor]
"""Calls the function, or recalls what it had given under this key before; so many calls of the metric are counted."""


class Asks(NamedTuple):
    """How candidates are asked about one by one.

    Attributes:
        alone: From a candidate to what evaluates it.
        ahead: Told of all that will be asked, candidates on rows, so that workers can begin.
    """

    alone: Callable[[int], Evaluate]
    ahead: Callable[[Sequence[tuple[int, Tensor]]], None] = lambda _wanted: None


_AT_ONCE = 50
RETRIES = 3
"""How often the values on all rows, without which nothing is accepted, are asked again."""


@dataclass(frozen=True)
class Evidence:
    """Values on all rows and on choices of them.

    Attributes:
        whole: On all rows, (candidates,).
        others: On resamples, or with one fold left out, (candidates, choices), NaN where the metric failed.
        folds: Whether the choices leave out a fold each.
        calls: Calls of the metric it took.
        widening: By how much errors are larger than these rows show, as of rows that choices were made on. Intervals
            are then those of a normal distribution around the gain on all rows.
        luck: Standard errors by which each candidate looks better on these rows than it is, because it was chosen on
            them; none if empty. Intervals are then of a normal distribution too, around the gain without that luck.

    Example:
        >>> flat = Evidence(torch.tensor([0.5, 0.6]), torch.tensor([[0.5] * 40, [0.6] * 40]), folds=False, calls=82)
        >>> [round(number, 3) for number in flat.interval(0, 1, sign=1.0, level=0.9)]
        [0.1, 0.1]
    """

    whole: Tensor
    others: Tensor
    folds: bool
    calls: int
    widening: float = 1.0
    luck: tuple[float, ...] = ()

    @property
    def _normal(self) -> bool:
        """Whether intervals are made of a centre and its error, instead of the resamples themselves."""
        return self.folds or self.widening != 1 or bool(self.luck)

    def gains(self, one: int, other: int, *, sign: float) -> Tensor:
        """By how much `other` is better than `one` on each choice of rows that answered for both."""
        pair = self.others[[one, other]]
        pair = pair[:, ~pair.isnan().any(0)]
        return sign * (pair[1] - pair[0])

    def interval(self, one: int, other: int, *, sign: float, level: float) -> tuple[float, float]:
        """Two-sided interval of the gain; NaN where there is too little to tell."""
        gains = self.gains(one, other, sign=sign)
        if self._normal:
            centre, error, freedom = self._spread(one, other, sign)
            if freedom < 1:
                return math.nan, math.nan
            reach = float(student.ppf((1 + level) / 2, freedom)) * error
            return centre - reach, centre + reach
        # The k-th of n resamples has a share of k / (n + 1) below it; with too few of them nothing must be accepted.
        outside = int((1 - level) / 2 * (gains.numel() + 1) + 1e-9)
        ordered = gains.sort().values
        return (float(ordered[outside - 1]), float(ordered[-outside])) if outside else (math.nan, math.nan)

    def confidence(self, one: int, other: int, *, sign: float) -> float:
        """Probability that `other` is better than `one`."""
        gains = self.gains(one, other, sign=sign)
        if not self._normal:
            return float((gains > 0).sum()) / max(gains.numel(), 1)
        centre, error, freedom = self._spread(one, other, sign)
        if freedom < 1 or error == 0:
            return float(centre > 0) if freedom >= 1 else 0.0
        return float(student.cdf(centre / error, freedom))

    def bound(self, candidate: int, tail: float) -> float:
        """The value below which a share of `tail` of what other rows might give lies."""
        known = self.others[candidate][~self.others[candidate].isnan()]
        if not len(known):
            return math.nan
        if not self.folds:
            value = float(self.whole[candidate])
            found = float(torch.quantile(known, tail))
            return found if self.widening == 1 else value + self.widening * (found - value)
        count = len(known)
        pseudo = count * self.whole[candidate] - (count - 1) * known
        error = self.widening * float(pseudo.std()) / math.sqrt(count) if count > 1 else math.nan
        return float(self.whole[candidate]) + float(student.ppf(tail, max(count - 1, 1))) * error

    def _spread(self, one: int, other: int, sign: float) -> tuple[float, float, float]:
        """Centre, standard error and degrees of freedom of the gain."""
        centre, error, freedom = self._seen(one, other, sign)
        if self.luck:
            centre -= (self.luck[other] - self.luck[one]) * error
        return centre, self.widening * error, freedom

    def _seen(self, one: int, other: int, sign: float) -> tuple[float, float, float]:
        """The same as the rows show it."""
        if self.folds:
            return self._pseudo(one, other, sign)
        gains = self.gains(one, other, sign=sign)
        centre = sign * float(self.whole[other] - self.whole[one])
        if len(gains) < 2 or math.isnan(centre):
            return math.nan, math.nan, 0
        return centre, float(gains.std()), math.inf

    def _pseudo(self, one: int, other: int, sign: float) -> tuple[float, float, int]:
        """Centre, standard error and degrees of freedom of the gain, from the jackknife's pseudo-values."""
        gains = self.gains(one, other, sign=sign)
        whole = sign * float(self.whole[other] - self.whole[one])
        count = len(gains)
        if count < 2 or math.isnan(whole):
            return math.nan, math.nan, 0
        pseudo = count * whole - (count - 1) * gains
        return float(pseudo.mean()), float(pseudo.std()) / math.sqrt(count), count - 1


def bootstrapped(
    evaluate: Evaluate,
    rows: int,
    resamples: int,
    generator: torch.Generator,
    *,
    candidates: int,
    once: Once,
    calls: int = 1,
) -> Evidence:
    """Evidence from resamples of the rows, the same ones for all candidates; each takes so many calls, 1 or none."""
    whole, retries = _whole(evaluate, rows, candidates, most=min(RETRIES, resamples - 1), once=once)
    # Instead of resamples, so that a metric is asked as often whether it fails or not.
    index = torch.randint(rows, (resamples - retries, rows), generator=generator)
    blocks = enumerate(index.split(_AT_ONCE))
    parts = [_block(evaluate, part, candidates, f"resamples {k}", once, calls=calls) for k, part in blocks]
    asked = 1 + retries + calls * (resamples - retries)
    return Evidence(whole, torch.cat(parts, 1), folds=False, calls=candidates * asked)


def jackknifed(
    evaluate: Evaluate,
    rows: int,
    folds: int,
    generator: torch.Generator,
    *,
    candidates: int,
    once: Once,
    recalled: Callable[[str], bool] = lambda _key: False,
    ask: Asks | None = None,
) -> Evidence:
    """Evidence from leaving out one random fold of the rows after the other.

    What nobody answered is asked again, three times in all; then it is an outage, and an error rather than a verdict.
    Attempts that were `recalled` from a run that is continued do not count. Where candidates can be asked about
    alone, they are, and each answer is kept by itself: a kill loses those under way and no other.
    """
    order = torch.randperm(rows, generator=generator)
    left = [order[torch.arange(rows) % folds != fold] for fold in range(folds)]
    asker = _Asker(evaluate, candidates, once, recalled, ask)
    asker.ahead([("all rows", torch.arange(rows)), *((f"fold {number}", part) for number, part in enumerate(left))])
    whole = asker("all rows", torch.arange(rows), whole=True)
    others = [asker(f"fold {number}", part, whole=False) for number, part in enumerate(left)]
    return Evidence(whole, torch.stack(others, 1), folds=True, calls=candidates * asker.asked)


class _Asker:
    """Asks about all candidates on some rows, again where that brought nothing, but not for ever."""

    def __init__(
        self,
        evaluate: Evaluate,
        candidates: int,
        once: Once,
        recalled: Callable[[str], bool],
        ask: Asks | None,
    ) -> None:
        self._evaluate, self._candidates, self._once, self._recalled = evaluate, candidates, once, recalled
        self._asks = ask
        self._left = RETRIES
        self.asked = 0

    def ahead(self, wanted: Sequence[tuple[str, Tensor]]) -> None:
        """Let it be known what will be asked, unless a run that is continued has asked it."""
        if self._asks is not None:
            ones = range(self._candidates)
            new = [(one, rows) for key, rows in wanted for one in ones if not self._recalled(_named(key, one))]
            self._asks.ahead(new)

    def __call__(self, key: str, rows: Tensor, *, whole: bool) -> Tensor:
        """Values (candidates,); of `whole` rows each one is needed, otherwise any is better than none."""
        found = latest = self._ask(key, rows)
        attempt = 1
        while bool(found.isnan().any() if whole else found.isnan().all()):
            again = f"{key}, try {attempt}"
            if not self._recalled(again if self._asks is None else _named(again, self._candidates - 1)):
                if self._left == 0:
                    break
                self._left -= 1
            latest, attempt = self._ask(again, rows), attempt + 1
            found = torch.where(found.isnan(), latest, found)
        if bool(latest.isnan().all()):
            raise MetricError(
                f"the metric gave no answer about the held-out rows, {attempt} times in a row (see the warnings "
                f"for why), so nothing was decided; expected a number: once it answers again, call the same with "
                f"run_dir and resume=True, which pays for no answer twice"
            )
        return found

    def _ask(self, key: str, rows: Tensor) -> Tensor:
        self.asked += 1
        if self._asks is None:
            return self._once(key, lambda: self._evaluate(rows[None])[:, 0], self._candidates)
        evaluates = [self._asks.alone(one) for one in range(self._candidates)]
        asked = [
            self._once(_named(key, one), partial(_first, evaluate, rows[None]), 1)
            for one, evaluate in enumerate(evaluates)
        ]
        return torch.cat(asked)


def _named(key: str, candidate: int) -> str:
    return f"{key}, candidate {candidate}"


def _first(evaluate: Evaluate, rows: Tensor) -> Tensor:
    return evaluate(rows)[:, 0]


def _whole(evaluate: Evaluate, rows: int, candidates: int, *, most: int, once: Once) -> tuple[Tensor, int]:
    """Values on all rows, asked again where the metric failed, and how often it was asked again."""
    everything = torch.arange(rows)[None]
    whole = once("all rows", lambda: evaluate(everything)[:, 0], candidates)
    retries = 0
    while bool(whole.isnan().any()) and retries < most:
        retries += 1
        again = once(f"all rows, try {retries}", lambda: evaluate(everything)[:, 0], candidates)
        whole = torch.where(whole.isnan(), again, whole)
    return whole, retries


def _block(evaluate: Evaluate, index: Tensor, candidates: int, key: str, once: Once, *, calls: int) -> Tensor:
    asked = calls * candidates * len(index)
    return once(key, lambda: evaluate(index).flatten(), asked).reshape(candidates, len(index))
