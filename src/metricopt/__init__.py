"""Finetune a small adapter of a pre-trained PyTorch model until any black-box metric is better.

Names are imported when they are first used, so that `import metricopt as mo` costs next to nothing.

Example:
    >>> import metricopt as mo
    >>> mo.metrics.mcr().goal
    'min'
    >>> mo.optimize.__module__
    'metricopt.optimize'
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metricopt import adapters, data, losses, metrics, models
    from metricopt.acceptance import Comparison
    from metricopt.adapters import (
        Biases,
        ConditionalNorm,
        DynamicBias,
        FiLM,
        LastLayer,
        OutputAffine,
        adapt,
        merge,
        remove,
    )
    from metricopt.adapters.saved import load_adapter, save_adapter
    from metricopt.constraint import Constraint
    from metricopt.events import read_events
    from metricopt.finetune import PAPER, Stages, finetune, learn_value_function
    from metricopt.ledger import QueryLedger
    from metricopt.metrics import CommandMetric, HttpMetric, Metric
    from metricopt.optim.guided import MetricGuided
    from metricopt.optimize import optimize
    from metricopt.result import Result, load_result
    from metricopt.search import Recipe
    from metricopt.supervised import SupervisedTask
    from metricopt.task import Task
    from metricopt.value.saved import load_value, save_value
    from metricopt.value.training import Training

__version__ = "0.1.0"

__all__ = [
    "PAPER",
    "Biases",
    "CommandMetric",
    "Comparison",
    "ConditionalNorm",
    "Constraint",
    "DynamicBias",
    "FiLM",
    "HttpMetric",
    "LastLayer",
    "Metric",
    "MetricGuided",
    "OutputAffine",
    "QueryLedger",
    "Recipe",
    "Result",
    "Stages",
    "SupervisedTask",
    "Task",
    "Training",
    "adapt",
    "adapters",
    "data",
    "finetune",
    "learn_value_function",
    "load_adapter",
    "load_result",
    "load_value",
    "losses",
    "merge",
    "metrics",
    "models",
    "optimize",
    "read_events",
    "remove",
    "save_adapter",
    "save_value",
]

_HOMES = {
    "metricopt.acceptance": ("Comparison",),
    "metricopt.adapters": (
        *("Biases", "ConditionalNorm", "DynamicBias", "FiLM", "LastLayer", "OutputAffine"),
        *("adapt", "merge", "remove"),
    ),
    "metricopt.adapters.saved": ("load_adapter", "save_adapter"),
    "metricopt.constraint": ("Constraint",),
    "metricopt.events": ("read_events",),
    "metricopt.finetune": ("PAPER", "Stages", "finetune", "learn_value_function"),
    "metricopt.ledger": ("QueryLedger",),
    "metricopt.metrics": ("CommandMetric", "HttpMetric", "Metric"),
    "metricopt.optim.guided": ("MetricGuided",),
    "metricopt.optimize": ("optimize",),
    "metricopt.result": ("Result", "load_result"),
    "metricopt.search": ("Recipe",),
    "metricopt.supervised": ("SupervisedTask",),
    "metricopt.task": ("Task",),
    "metricopt.value.saved": ("load_value", "save_value"),
    "metricopt.value.training": ("Training",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
_SUBMODULES = ("adapters", "data", "losses", "metrics", "models")


class _Package(ModuleType):
    """This package, in which a function keeps the name that it shares with the module it comes from."""

    def __setattr__(self, name: str, value: object) -> None:
        # Once metricopt.optimize has been imported, Python binds that module to the name of the function.
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return importlib.import_module(f"metricopt.{name}")
    # With name and object Python itself adds: Did you mean ...?
    raise AttributeError(f"metricopt has no attribute {name!r}", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
