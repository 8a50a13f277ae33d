"""What a metric is described by and what it answers, checked once."""

import inspect
import math
from collections.abc import Mapping, Sized
from typing import Any, SupportsFloat, SupportsIndex

import numpy as np
from torch import Tensor

from metricopt.core.errors import MetricError

_LONGEST = 500  # characters of somebody else's words in a message of one sentence
_SHOWN = 100  # of a thing


def as_float(answer: Any) -> float | None:
    """The answer as a float, infinite if it is too large for one; None if it is not one number.

    Example:
        >>> as_float(np.array([0.5])), as_float("0.5"), as_float(10**400)
        (0.5, None, inf)
    """
    if type(answer) is float:
        return answer
    try:
        if isinstance(answer, (Tensor, np.ndarray)):
            answer = answer.item() if math.prod(answer.shape) == 1 else None
        return float(answer) if isinstance(answer, (SupportsFloat, SupportsIndex)) else None
    except OverflowError:
        return math.inf
    except Exception:  # whatever a foreign kind of number does instead of being one
        return None


def one_number(name: str, answer: Any) -> float:
    """The answer of the metric `name` as a finite float; otherwise a MetricError that says how to give one.

    Example:
        >>> one_number("f1", np.float32(0.5))
        0.5
        >>> one_number("f1", np.array([0.5, 0.6]))
        Traceback (most recent call last):
        ...
        metricopt.core.errors.MetricError: metric 'f1' returned array([0.5, 0.6]); a single number is expected: take ...
    """
    number = as_float(answer)
    if number is None:
        advice = _advice(answer)
        raise MetricError(f"metric {name!r} returned {shown(answer)}; a single number is expected: {advice}")
    if not math.isfinite(number):
        found = number if isinstance(answer, float) else f"{shown(answer)}, as a float {number}"
        raise MetricError(
            f"metric {name!r} gave {found}; a finite number is expected: "
            f"check that it is defined on these data (every class present?) or handle the case in its function"
        )
    return number


def shown(thing: Any) -> str:
    """A thing in at most a hundred characters on one line, whatever its `repr` does.

    Example:
        >>> shown([1, 2]), shown(10**5000)
        ('[1, 2]', 'something of type int that cannot be shown')
    """
    try:
        return _short(repr(thing), _SHOWN)
    except Exception:
        return f"something of type {type(thing).__name__} that cannot be shown"


def kind_of(thing: Any) -> str:
    """What a thing is in a few words: type and shape of an array, otherwise its class.

    Example:
        >>> kind_of(np.zeros((2, 3))), kind_of([{}, {}])
        ('float64 (2, 3)', 'list of 2')
    """
    if isinstance(thing, (Tensor, np.ndarray)):
        return f"{str(thing.dtype).removeprefix('torch.')} {tuple(thing.shape)}"
    return f"{type(thing).__name__} of {len(thing)}" if isinstance(thing, Sized) else type(thing).__name__


def said(error: BaseException) -> str:
    """Type and message of an exception on one line, whatever its `str` does.

    Example:
        >>> said(KeyError("f1")), said(SystemExit(3))
        ("KeyError: 'f1'", 'SystemExit: 3')
    """
    try:
        return _short(f"{type(error).__name__}: {error}", _LONGEST)
    except Exception:
        return f"{type(error).__name__}, whose message cannot be shown"


def stated(name: str, what: str, found: Any, choices: tuple[str, ...]) -> Any:
    """What the user stated of the metric `name`, one of the choices."""
    if found is None:
        example = "on='labels', goal='max'"
        raise MetricError(
            f"metric {name!r} was given without {what!r}, which is never guessed: "
            f"write Metric(..., {example}) with {what} one of {', '.join(choices)}"
        )
    if found not in choices:
        raise MetricError(f"metric {name!r} has {what}={found!r}; choose one of {', '.join(map(repr, choices))}")
    return found


def positive(name: str, what: str, number: Any) -> float | None:
    """A positive number, or None if none was given."""
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number < math.inf:
        raise MetricError(f"metric {name!r} has {what}={shown(number)}; a positive number is expected")
    return number


def checked_bounds(name: str, bounds: Any) -> tuple[float, float]:
    """The bounds as two floats in increasing order; infinite ones, both for None, where there is none.

    Example:
        >>> checked_bounds("mae", None), checked_bounds("mae", (0, math.inf))
        ((-inf, inf), (0.0, inf))
    """
    if bounds is None:
        return -math.inf, math.inf
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError, OverflowError):
        low = high = math.nan
    if not low < high:
        raise MetricError(
            f"metric {name!r} has bounds={shown(bounds)}; two numbers, the smaller first, are expected, "
            f"infinite ones where there is no bound, or None where there is none at all"
        )
    return low, high


def _short(text: str, longest: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= longest else f"{text[: longest - 4]} ..."


def _advice(answer: Any) -> str:
    """What to do about an answer that is no number."""
    if inspect.iscoroutine(answer):
        answer.close()  # or Python would complain, much later, that nobody awaited it
        return "its function is async, so wrap it: lambda y, p: asyncio.run(function(y, p))"
    if inspect.isgenerator(answer):
        return "its function yields, so let it return a float"
    if isinstance(answer, Mapping):
        return f"choose one of its entries, Metric(..., key={next(iter(answer), 'name')!r})"
    if isinstance(answer, (Tensor, np.ndarray, list, tuple)) and isinstance(answer, Sized):
        return "take the mean or one of them; libraries that average over classes do so with average='macro'"
    return "return a float"
