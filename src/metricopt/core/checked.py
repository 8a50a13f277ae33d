"""Plain data of a file as records and numbers; what is of another type than expected is refused by a TypeError."""

import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any


def record(kind: type[Any], facts: dict[str, Any]) -> Any:
    """A record from plain data, in which null stands for NaN; what is of another type is refused."""
    checks: dict[Any, Callable[[Any], Any]] = {float: number, int: count, bool: truth, str: text}
    checks[float | None] = lambda value: None if value is None else number(value)
    types = {each.name: checks.get(each.type, lambda value: value) for each in fields(kind)}
    return kind(**{key: types[key](value) for key, value in facts.items()})


def pair(values: Any) -> tuple[float, float]:
    """Two numbers."""
    low, high = values
    return number(low), number(high)


def number(value: Any) -> float:
    """A number; null stands for NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float | None):
        raise TypeError(f"{str(value)[:40]!r} where a number is expected")
    return math.nan if value is None else float(value)


def count(value: Any) -> int:
    """A whole number from 0 on."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise TypeError(f"{str(value)[:40]!r} where a count is expected")
    return value


def whole(value: Any) -> int:
    """A whole number of either sign."""
    return -count(-value) if isinstance(value, int) and value < 0 else count(value)


def truth(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise TypeError(f"{str(value)[:40]!r} where true or false is expected")
    return value


def text(value: Any) -> str:
    """Words."""
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:40]!r} where text is expected")
    return value
