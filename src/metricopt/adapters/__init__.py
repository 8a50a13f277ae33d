"""Adapters: a frozen pre-trained network modulated by one vector phi; phi = 0 changes nothing.

Every module of this package is imported, so that a new adapter is one new file with one decorator.
"""

from metricopt.adapters.adapting import adapt, merge, remove
from metricopt.adapters.biases import Biases
from metricopt.adapters.conditional_norm import ConditionalNorm
from metricopt.adapters.dynamic_bias import DynamicBias
from metricopt.adapters.embedding_affine import EmbeddingAffine
from metricopt.adapters.film import FiLM
from metricopt.adapters.last_layer import LastLayer
from metricopt.adapters.layer_affine import LayerAffine
from metricopt.adapters.model import AdaptedModel
from metricopt.adapters.output_affine import OutputAffine
from metricopt.adapters.parameters import Parameters
from metricopt.adapters.spec import ADAPTERS, Adapter, SingleAdapter, Sum, adapter_from
from metricopt.adapters.weight_directions import WeightDirections
from metricopt.core.registry import import_all

__all__ = [
    "ADAPTERS",
    "AdaptedModel",
    "Adapter",
    "Biases",
    "ConditionalNorm",
    "DynamicBias",
    "EmbeddingAffine",
    "FiLM",
    "LastLayer",
    "LayerAffine",
    "OutputAffine",
    "Parameters",
    "SingleAdapter",
    "Sum",
    "WeightDirections",
    "adapt",
    "adapter_from",
    "merge",
    "remove",
]

import_all(__name__)
