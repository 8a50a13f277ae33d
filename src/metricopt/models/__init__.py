"""The paper's networks, untrained.

Every module of this package is imported, so that a new network is one new file that registers itself.
"""

import importlib
import pkgutil

from metricopt.models.convnet import SmallConvNet, small_convnet
from metricopt.models.registry import MODELS
from metricopt.models.resnet import CifarResNet, resnet32
from metricopt.models.tabular_mlp import TabularMLP

__all__ = ["MODELS", "CifarResNet", "SmallConvNet", "TabularMLP", "resnet32", "small_convnet"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
