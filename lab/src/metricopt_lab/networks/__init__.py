"""The paper's networks, untrained.

Every module of this package is imported, so that a new network is one new file that registers itself.
"""

import importlib
import pkgutil

from metricopt_lab.networks.convnet import SmallConvNet, small_convnet
from metricopt_lab.networks.registry import MODELS
from metricopt_lab.networks.resnet import CifarResNet, resnet32
from metricopt_lab.networks.tabular_mlp import TabularMLP

__all__ = ["MODELS", "CifarResNet", "SmallConvNet", "TabularMLP", "resnet32", "small_convnet"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
