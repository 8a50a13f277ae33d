"""The speed benchmark: every figure is a ratio measured interleaved in one process, or how something grows.

Every module of this package is imported, so that a new figure is one new function with one decorator.

Example:
    >>> from metricopt_lab.speed import FIGURES
    >>> "a" in FIGURES
    True
"""

from metricopt_lab.cells.discovery import import_modules
from metricopt_lab.speed.figures import FIGURES, Effort, Figure
from metricopt_lab.speed.measuring import measure_speed
from metricopt_lab.speed.page import page

__all__ = ["FIGURES", "Effort", "Figure", "measure_speed", "page"]

import_modules(__name__)
