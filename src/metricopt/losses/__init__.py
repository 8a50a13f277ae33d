"""Surrogate losses: differentiable stand-ins for metrics, safe under `torch.func.vmap` and `grad`."""

from metricopt.losses.cross_entropy import class_balanced, cost_sensitive_f, cross_entropy
from metricopt.losses.lovasz import jaccard_extension, lovasz_hinge, lovasz_softmax
from metricopt.losses.named import LOSSES, Loss

__all__ = [
    "LOSSES",
    "Loss",
    "class_balanced",
    "cost_sensitive_f",
    "cross_entropy",
    "jaccard_extension",
    "lovasz_hinge",
    "lovasz_softmax",
]
