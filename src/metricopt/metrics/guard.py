"""What is everybody's and a metric may change, as it was before every call.

Cheap enough to do always: about 20 microseconds a call, most of them for Python's random state.
"""

import contextlib
import ctypes
import os
import random
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
import torch

from metricopt.metrics.time_limit import within

_MERSENNE_TWISTER = 4 * 624 + 4  # bytes of its state: 624 words and a position


def guarded(seconds: float | None, function: Callable[..., Any], *arguments: Any) -> Any:
    """What `function(*arguments)` gives within so many seconds, with global state restored afterwards.

    That is: torch's gradient mode and default type; the global random state of torch (on the processor), NumPy and
    Python; NumPy's handling of floating-point errors; the working directory; the filters of warnings. So a function
    that draws from a global random stream draws the same numbers at every call.

    Example:
        >>> guarded(None, torch.set_default_dtype, torch.float64)
        >>> torch.get_default_dtype()
        torch.float32
    """
    gradients = torch.is_grad_enabled()  # each thread has its own
    try:
        with _SURROUNDINGS:
            return within(seconds, function, *arguments)
    finally:
        if torch.is_grad_enabled() != gradients:
            torch.set_grad_enabled(gradients)


@final
class _Surroundings:
    """Saved when the first of several threads enters, restored when the last one leaves."""

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._saved: _State | None = None

    def __enter__(self) -> Self:
        with self._lock:
            if self._inside == 0:
                self._saved = _state(self._saved)
            self._inside += 1
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._saved is not None:
                _restore(self._saved)


_SURROUNDINGS = _Surroundings()


@dataclass(frozen=True)
class _State:
    dtype: torch.dtype
    torch_random: torch.Tensor
    numpy_random: Any
    numpy_bytes: bytes | None
    python_random: Any
    floating_point: Any
    folder: str | None
    filters: list[Any]


def _state(last: _State | None) -> _State:
    numpy_bytes = _numpy_bytes()
    # NumPy takes 40 microseconds to describe its state; most often it is the one described last.
    known = last is not None and numpy_bytes is not None and numpy_bytes == last.numpy_bytes
    return _State(
        dtype=torch.get_default_dtype(),
        torch_random=torch.get_rng_state(),
        numpy_random=last.numpy_random if known and last is not None else np.random.get_state(legacy=False),  # noqa: NPY002
        numpy_bytes=numpy_bytes,
        python_random=random.getstate(),
        floating_point=np.geterr(),
        folder=_folder(),
        filters=list(warnings.filters),
    )


def _restore(state: _State) -> None:
    if torch.get_default_dtype() != state.dtype:
        torch.set_default_dtype(state.dtype)
    torch.set_rng_state(state.torch_random)
    if state.numpy_bytes is None or state.numpy_bytes != _numpy_bytes():
        np.random.set_state(state.numpy_random)  # noqa: NPY002 - the global one is meant
    random.setstate(state.python_random)
    if np.geterr() != state.floating_point:
        np.seterr(**state.floating_point)
    if state.folder is not None and _folder() != state.folder:
        with contextlib.suppress(OSError):  # it is gone, and there is nowhere to go back to
            os.chdir(state.folder)
    if warnings.filters != state.filters:
        warnings.filters[:] = state.filters  # pyright: ignore[reportIndexIssue]
        with warnings.catch_warnings():  # leaving it makes every module look at the filters anew
            pass


def _numpy_bytes() -> bytes | None:
    """The state of NumPy's global generator in memory, if it is of the usual kind."""
    generator = np.random.get_bit_generator()  # pyright: ignore[reportAttributeAccessIssue]
    if type(generator) is not np.random.MT19937:
        return None
    return ctypes.string_at(generator.ctypes.state_address, _MERSENNE_TWISTER)


def _folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - a tenth of the time of Path.cwd
    except OSError:
        return None
