"""By what a metric is recognised when a run is resumed: more than its name, which any function may have."""

import dis
import functools
import hashlib
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from metricopt.metrics.external.metrics import Outside
from metricopt.metrics.metric import Metric

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))
_DEEPEST = 8  # functions within functions that are looked into


def metric_facts(metric: Metric) -> dict[str, Any]:
    """What the log of a run says of its metric.

    Example:
        >>> from metricopt.metrics import as_metric
        >>> metric_facts(as_metric("f1"))["goal"]
        'max'
    """
    return {
        "name": metric.name,
        "goal": metric.goal,
        "on": metric.on,
        "bounds": None if metric.bounds is None else list(metric.bounds),
        "function": metric_fingerprint(metric),
    }


def metric_fingerprint(metric: Metric) -> str:
    """Name and hash of the functions behind a metric: of their code, defaults and plain values they were made with.

    The same for the same source in another process of the same Python. What a function calls is not looked into.

    Example:
        >>> def share(y, p): return float((y == p).mean())
        >>> one = Metric(share, on="labels", goal="max")
        >>> def share(y, p): return float((y != p).mean())
        >>> other = Metric(share, on="labels", goal="max")
        >>> metric_fingerprint(one) == metric_fingerprint(one), metric_fingerprint(one) == metric_fingerprint(other)
        (True, False)
    """
    text = "\n".join(_described(function, 0) for function in (metric.function, metric.batched))
    return f"{_name(metric.function)} {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _name(function: Any) -> str:
    if isinstance(function, functools.partial):
        return _name(function.func)
    return str(getattr(function, "__qualname__", type(function).__qualname__)).rpartition("<locals>.")[2]


def _described(value: Any, depth: int) -> str:
    """Text that is the same for equal functions; of objects whose state may change only what they are."""
    deeper = functools.partial(_described, depth=depth + 1)
    if depth > _DEEPEST:
        return "..."
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(deeper, value))})"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(deeper, value)))}}}"
    if isinstance(value, types.CodeType):
        return f"{value.co_name}{value.co_code.hex()}{value.co_names}{deeper(value.co_consts)}"
    if isinstance(value, functools.partial):
        return f"partial({deeper(value.func)}, {deeper(value.args)}, {deeper(_items(value.keywords))})"
    if isinstance(value, types.FunctionType):
        return _function(value, deeper)
    if isinstance(value, types.MethodType):
        return f"{deeper(value.__self__)}.{deeper(value.__func__)}"
    if isinstance(value, Outside):
        return value.identity
    return _object(value, deeper)


def _function(function: types.FunctionType, deeper: Callable[[Any], str]) -> str:
    settings = (function.__defaults__, _items(function.__kwdefaults__ or {}), _made_with(function))
    return f"{function.__qualname__} {deeper(function.__code__)} {deeper(settings)}"


def _made_with(function: types.FunctionType) -> tuple[Any, ...]:
    """Values of the outer variables a function uses; one that it sets itself, as a counter, says nothing about it."""
    code = function.__code__
    own = {each.argval for each in dis.get_instructions(code) if each.opname == "STORE_DEREF"}
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    return tuple((name, cell.cell_contents) for name, cell in cells if name not in own and _filled(cell))


def _items(settings: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted(settings.items(), key=lambda item: item[0]))


def _object(value: Any, deeper: Callable[[Any], str]) -> str:
    kind = type(value)
    if is_dataclass(value) and kind.__dataclass_params__.frozen:  # pyright: ignore[reportAttributeAccessIssue]
        return f"{kind.__qualname__}({', '.join(deeper(getattr(value, each.name)) for each in fields(value))})"
    call = getattr(kind, "__call__", None)  # noqa: B004 - its code is wanted, not whether there is one
    code = deeper(call.__code__) if isinstance(call, types.FunctionType) else ""
    return f"{getattr(value, '__qualname__', kind.__qualname__)} {code}"


def _filled(cell: types.CellType) -> bool:
    """Whether a variable that a function was made with has a value by now."""
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True
