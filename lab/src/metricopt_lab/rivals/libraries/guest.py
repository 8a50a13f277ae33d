"""A guest in the house: other people's libraries, imported late, with random states and warnings of their own."""

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import numpy as np
import torch

from metricopt.core.seeding import derived_seed


def guest(package: str) -> ModuleType:
    """The package, or one sentence that says how to get it.

    Example:
        >>> guest("no_such_package")
        Traceback (most recent call last):
        ModuleNotFoundError: the package 'no_such_package' is not installed, but this rival is made of it: ...
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"the package '{package}' is not installed, but this rival is made of it: "
            f"pip install 'metricopt-lab[optimizers]'"
        ) from error


@contextmanager
def own_randomness(seed: int, name: str) -> Iterator[int]:
    """Global random states that start from the seed within, and are afterwards what they were before.

    Warnings of a guest, about inputs that are not standardised or a likelihood that did not converge, are its own
    affair: its suggestions are judged by what they find.

    Example:
        >>> before = torch.random.get_rng_state()
        >>> with own_randomness(0, "example"):
        ...     drawn = torch.rand(1)
        >>> torch.equal(before, torch.random.get_rng_state())
        True
    """
    number = derived_seed(seed, "baseline", name) % 2**32
    numpys = np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(number)
        np.random.seed(number)  # noqa: NPY002
        try:
            yield number
        finally:
            np.random.set_state(numpys)  # noqa: NPY002
