"""The networks by name."""

from collections.abc import Callable

from torch import nn

from metricopt.core.registry import Registry

MODELS: Registry[Callable[..., nn.Module]] = Registry("model")
