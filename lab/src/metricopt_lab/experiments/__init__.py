"""The paper's tables and what else is measured on real data: one file an experiment, with one decorator.

Every module directly in this package is imported, so that the command and the contract tests pick up a new one.

Example:
    >>> from metricopt_lab.experiments import EXPERIMENTS
    >>> "table3" in EXPERIMENTS
    True
"""

import importlib
import pkgutil

from metricopt_lab.experiments.experiment import EXPERIMENTS, Cell, Experiment, Record, Settings
from metricopt_lab.experiments.runner import Run, run

__all__ = ["EXPERIMENTS", "Cell", "Experiment", "Record", "Run", "Settings", "run"]

for _module in pkgutil.iter_modules(__path__):
    if not _module.ispkg:
        importlib.import_module(f"{__name__}.{_module.name}")
