"""Finetune a pre-trained PyTorch model until any black-box metric is better.

Names are imported when they are first used, so that `import metricopt as mo` costs next to nothing.

Example:
    >>> import metricopt as mo
    >>> mo.metrics.mcr().goal
    'min'
    >>> mo.optimize.__module__
    'metricopt.api.optimize'
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metricopt import adapters, data, losses, metrics
    from metricopt.acceptance.comparison import Comparison
    from metricopt.adapters import (
        Biases,
        ConditionalNorm,
        DynamicBias,
        EmbeddingAffine,
        FiLM,
        LastLayer,
        LayerAffine,
        OutputAffine,
        Parameters,
        WeightDirections,
        adapt,
        merge,
        remove,
    )
    from metricopt.adapters.saved import load_adapter, save_adapter
    from metricopt.api.optimize import optimize
    from metricopt.api.result import Result, load_result
    from metricopt.api.study import Study, study
    from metricopt.data.sampling import PerClass
    from metricopt.integrations.huggingface import from_trainer
    from metricopt.integrations.lightning import MetricOptCallback
    from metricopt.integrations.sklearn import MetricOptClassifier, MetricOptRegressor
    from metricopt.integrations.trainer_callback import MetricOptTrainerCallback
    from metricopt.metrics import CommandMetric, Constraint, HttpMetric, Metric
    from metricopt.paper.guided import MetricGuided
    from metricopt.paper.learned.equation_s1_rule import MlpRule
    from metricopt.paper.learned.meta_training import meta_train
    from metricopt.paper.learned.optimizer import LearnedOptimizer
    from metricopt.paper.learned.settings import MetaTraining
    from metricopt.paper.learned.weights import load_optimizer, save_optimizer
    from metricopt.paper.learned.whole_rule import WholeRule
    from metricopt.paper.saved import load_value, save_value
    from metricopt.paper.settings import PAPER, PAPER_LETTER, Stages
    from metricopt.paper.stages import finetune, learn_value_function
    from metricopt.paper.training import Training
    from metricopt.run.events import read_events
    from metricopt.run.ledger import QueryLedger
    from metricopt.search import Recipe
    from metricopt.search.transfer import CarriedValue, load_carried, save_carried
    from metricopt.task.base import Task
    from metricopt.task.oracle import Oracle
    from metricopt.task.supervised import SupervisedTask

__version__ = "0.2.0.dev0"

_HOMES = {
    "metricopt.acceptance.comparison": ("Comparison",),
    "metricopt.adapters": (
        *("Biases", "ConditionalNorm", "DynamicBias", "EmbeddingAffine", "FiLM", "LastLayer", "LayerAffine"),
        *("OutputAffine", "Parameters", "WeightDirections", "adapt", "merge", "remove"),
    ),
    "metricopt.adapters.saved": ("load_adapter", "save_adapter"),
    "metricopt.api.optimize": ("optimize",),
    "metricopt.api.result": ("Result", "load_result"),
    "metricopt.integrations.huggingface": ("from_trainer",),
    "metricopt.integrations.lightning": ("MetricOptCallback",),
    "metricopt.integrations.sklearn": ("MetricOptClassifier", "MetricOptRegressor"),
    "metricopt.integrations.trainer_callback": ("MetricOptTrainerCallback",),
    "metricopt.api.study": ("Study", "study"),
    "metricopt.metrics": ("CommandMetric", "Constraint", "HttpMetric", "Metric"),
    "metricopt.paper.guided": ("MetricGuided",),
    "metricopt.paper.learned.equation_s1_rule": ("MlpRule",),
    "metricopt.paper.learned.meta_training": ("meta_train",),
    "metricopt.paper.learned.optimizer": ("LearnedOptimizer",),
    "metricopt.paper.learned.settings": ("MetaTraining",),
    "metricopt.paper.learned.weights": ("load_optimizer", "save_optimizer"),
    "metricopt.paper.learned.whole_rule": ("WholeRule",),
    "metricopt.data.sampling": ("PerClass",),
    "metricopt.paper.saved": ("load_value", "save_value"),
    "metricopt.paper.settings": ("PAPER", "PAPER_LETTER", "Stages"),
    "metricopt.paper.stages": ("finetune", "learn_value_function"),
    "metricopt.paper.training": ("Training",),
    "metricopt.run.events": ("read_events",),
    "metricopt.run.ledger": ("QueryLedger",),
    "metricopt.search": ("Recipe",),
    "metricopt.search.transfer": ("CarriedValue", "load_carried", "save_carried"),
    "metricopt.task.base": ("Task",),
    "metricopt.task.oracle": ("Oracle",),
    "metricopt.task.supervised": ("SupervisedTask",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
_SUBPACKAGES = ("adapters", "data", "losses", "metrics")

__all__ = [
    "PAPER",
    "PAPER_LETTER",
    "Biases",
    "CarriedValue",
    "CommandMetric",
    "Comparison",
    "ConditionalNorm",
    "Constraint",
    "DynamicBias",
    "EmbeddingAffine",
    "FiLM",
    "HttpMetric",
    "LastLayer",
    "LayerAffine",
    "LearnedOptimizer",
    "MetaTraining",
    "Metric",
    "MetricGuided",
    "MetricOptCallback",
    "MetricOptClassifier",
    "MetricOptRegressor",
    "MetricOptTrainerCallback",
    "MlpRule",
    "Oracle",
    "OutputAffine",
    "Parameters",
    "PerClass",
    "QueryLedger",
    "Recipe",
    "Result",
    "Stages",
    "Study",
    "SupervisedTask",
    "Task",
    "Training",
    "WeightDirections",
    "WholeRule",
    "adapt",
    "adapters",
    "data",
    "finetune",
    "from_trainer",
    "learn_value_function",
    "load_adapter",
    "load_carried",
    "load_optimizer",
    "load_result",
    "load_value",
    "losses",
    "merge",
    "meta_train",
    "metrics",
    "optimize",
    "read_events",
    "remove",
    "save_adapter",
    "save_carried",
    "save_optimizer",
    "save_value",
    "study",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name in _SUBPACKAGES:
        return importlib.import_module(f"metricopt.{name}")
    # With name and object Python itself adds: Did you mean ...?
    raise AttributeError(f"metricopt has no attribute {name!r}", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
