"""Optimizers that others have written and keep, on the same phi and with the same count of queries.

Bayesian ones by BoTorch and Optuna, evolution strategies by `cmaes` and `crfmnes`: an extra of the laboratory.

Every module of this package is imported, so that a new one is one new file with one decorator.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
