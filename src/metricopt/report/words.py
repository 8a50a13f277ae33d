"""Numbers and sentences as a reader wants them."""

import math
from html import escape
from typing import Any

NONE = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"


def number(value: Any, digits: int = 4) -> str:
    """A number with a fixed number of decimals, or a dash if there is none.

    Example:
        >>> number(0.70721), number(None), number(12000)
        ('0.7072', '–', '12,000')
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return NONE
    decimals = 0 if isinstance(value, int) else digits if abs(value) < 1000 else 1
    return f"{value:,.{decimals}f}".replace("-", MINUS)


def signed(value: Any, digits: int = 4) -> str:
    """A number with its sign, with a true minus.

    Example:
        >>> signed(-0.01)
        '−0.0100'
    """
    return number(value, digits) if number(value) == NONE else f"{float(value):+.{digits}f}".replace("-", MINUS)


def plural(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun.

    Example:
        >>> plural(1, "query", "queries"), plural(2000, "example")
        ('1 query', '2,000 examples')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def duration(seconds: Any) -> str:
    """Seconds as a person would say them.

    Example:
        >>> duration(4.12), duration(200.0), duration(9000.0), duration(None)
        ('4.1 s', '3 min 20 s', '2 h 30 min', '–')
    """
    if not isinstance(seconds, int | float) or not math.isfinite(seconds):
        return NONE
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def percent(share: Any) -> str:
    """A share in per cent; all or nothing only where that is so.

    Example:
        >>> percent(0.9), percent(0.998), percent(1.0)
        ('90%', '99.8%', '100%')
    """
    if number(share) == NONE:
        return NONE
    edge = 0 < share < 0.01 or 0.99 < share < 1
    return f"{100 * share:.{1 if edge else 0}f}%"


def safe(value: Any) -> str:
    """Anything as text that cannot be taken for markup.

    Example:
        >>> safe("<b>")
        '&lt;b&gt;'
    """
    return escape(str(value))
