"""Packages that only some users have: imported late, and asked for in one sentence."""

import importlib
from types import ModuleType


def needed(module: str, *, extra: str, purpose: str) -> ModuleType:
    """A module of an optional package; without it a sentence that names what to install.

    Example:
        >>> needed("math", extra="numbers", purpose="counting").floor(1.5)
        1
        >>> needed("no_such_package", extra="sklearn", purpose="MetricOptClassifier")
        Traceback (most recent call last):
        ...
        ImportError: MetricOptClassifier needs no_such_package (...): pip install "metricopt-torch[sklearn]"
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(
            f'{purpose} needs {package} ({error}): pip install "metricopt-torch[{extra}]"', name=package
        ) from error
