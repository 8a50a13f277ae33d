"""Rivals that finetune the real weights on labels, as practitioners do; each tunes biases in the end.

Every module of this package is imported, so that a new rival is one new file with one decorator.
"""

import importlib
import pkgutil

from metricopt_lab.rivals.weights.finetunings import Finetunings
from metricopt_lab.rivals.weights.named import WEIGHT_RIVALS, Tuned, weight_rival

__all__ = ["WEIGHT_RIVALS", "Finetunings", "Tuned", "weight_rival"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
