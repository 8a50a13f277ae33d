"""Ranges and ticks of axes."""

import math
from collections.abc import Iterable

import numpy as np

from metricopt.report.run import Array
from metricopt.report.words import MINUS

Range = tuple[float, float]


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About `count` round numbers between `low` and `high`.

    Example:
        >>> ticks(0.0, 1.0, 5)
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
        >>> ticks(0, 300, 4)
        [0, 100, 200, 300]
    """
    raw = (high - low) / max(count, 1)
    size = 10.0 ** math.floor(math.log10(raw))
    step = size * min((1, 2, 2.5, 5, 10), key=lambda factor: abs(math.log(factor * size / raw)))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    found = [round(k * step, 12) for k in range(first, last + 1)]
    return [int(each) for each in found] if step >= 1 and step == int(step) else found


def tick_texts(values: list[float]) -> list[str]:
    """The ticks with as many decimals as tell them apart.

    Example:
        >>> tick_texts([0.0, 0.25, 0.5])
        ['0.00', '0.25', '0.50']
    """
    for decimals in range(7):
        texts = [f"{value:,.{decimals}f}" for value in values]
        if all(abs(float(t.replace(",", "")) - v) < 1e-9 for t, v in zip(texts, values, strict=True)):
            return [text.replace("-", MINUS) for text in texts]
    return [f"{value:.3g}".replace("-", MINUS) for value in values]


def span(*parts: Array | Iterable[float], pad: float = 0.06) -> Range:
    """Smallest range with all finite numbers in it and some air; (0, 1) if there are none.

    Example:
        >>> span([1.0, 2.0], pad=0.5)
        (0.5, 2.5)
    """
    joined = np.concatenate([np.asarray(list(part), dtype=float) for part in parts])
    known = joined[np.isfinite(joined)]
    if not len(known):
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    air = pad * (high - low) if high > low else max(abs(high) * 0.05, 0.05)
    return low - air, high + air


def telling_span(values: Array, *, sign: float, include: Iterable[float] = ()) -> Range:
    """A range for many values of which the worst tenth may fall outside, so that the rest can be told apart.

    Args:
        values: Values in natural units.
        sign: 1 if larger is better, else -1.
        include: Values that must be inside.

    Example:
        >>> low, high = telling_span(np.array([0.0] + [0.7] * 40 + [0.8]), sign=1.0)
        >>> low > 0.6, high > 0.8
        (True, True)
    """
    known = values[np.isfinite(values)]
    if not len(known):
        return span(list(include))
    worst = float(np.quantile(known, 0.1 if sign > 0 else 0.9))
    best = float(known.max() if sign > 0 else known.min())
    return span([worst, best, *include])
