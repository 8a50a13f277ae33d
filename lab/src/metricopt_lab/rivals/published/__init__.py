"""Rivals of the paper's Tables 1 to 3: MOEW, ALA, SL and black-box differentiation.

Each trains whatever phi is: the adapter's vector, or, with the adapter `Parameters`, the weights themselves. They begin
with the pre-trained network, where their papers train from scratch, and count every evaluation of the metric.

Every module of this package is imported, so that a new rival is one new file with one decorator.
"""

import importlib
import pkgutil

from metricopt_lab.rivals.published.named import PUBLISHED, published, rival_of

__all__ = ["PUBLISHED", "published", "rival_of"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
