"""Rivals: other ways to find phi, with the same signature and the same count of metric queries.

Every module of this package is imported, so that a new rival is one new file with one decorator.

Example:
    >>> from metricopt.task.oracle import Oracle
    >>> from metricopt.task.quadratic import QuadraticTask
    >>> oracle = Oracle(QuadraticTask(dim=4))
    >>> outcome = BASELINES["random_search"].run(oracle, queries=20, seed=0)
    >>> oracle.ledger.used
    20
"""

import importlib
import pkgutil

from metricopt_lab.rivals.incumbent import Incumbent
from metricopt_lab.rivals.named import BASELINES, Baseline, Rival, baseline

__all__ = ["BASELINES", "Baseline", "Incumbent", "Rival", "baseline"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
