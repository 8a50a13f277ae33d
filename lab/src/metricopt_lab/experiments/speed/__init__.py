"""The speed benchmark: every figure is a ratio measured interleaved in one process, or how something grows.

Every module of this package is imported, so that a new figure is one new function with one decorator.

Example:
    >>> from metricopt_lab.experiments.speed import FIGURES
    >>> "a" in FIGURES
    True
"""

import importlib
import pkgutil

from metricopt_lab.experiments.speed.figures import FIGURES, Effort, Figure, run_figures
from metricopt_lab.experiments.speed.page import page

__all__ = ["FIGURES", "Effort", "Figure", "page", "run_figures"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
