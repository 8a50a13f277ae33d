"""Optimizers of Figure 4 that the library has not, and how the learned ones are meta-trained.

Every module of this package is imported, so that the rules are known whose weights are read from files.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
