"""Surrogate losses: differentiable stand-ins for metrics, safe under `torch.func.vmap` and `grad`."""

from metricopt.core.registry import import_all
from metricopt.losses.aucpr import AUCPRLoss, aucpr
from metricopt.losses.blackbox_rank import blackbox_rank
from metricopt.losses.cross_entropy import class_balanced, cost_sensitive_f, cross_entropy
from metricopt.losses.fast_ap import fast_ap
from metricopt.losses.large_margin_softmax import LargeMarginSoftmax, annealed, large_margin_softmax, margin_cosine
from metricopt.losses.lovasz import jaccard_extension, lovasz_hinge, lovasz_softmax
from metricopt.losses.named import LOSSES, Loss
from metricopt.losses.pairwise_aucroc import pairwise_aucroc
from metricopt.losses.recall import recall
from metricopt.losses.surrogates import Scores, Surrogate, hinge, log_odds, logistic, raw_logits

__all__ = [
    "LOSSES",
    "AUCPRLoss",
    "LargeMarginSoftmax",
    "Loss",
    "Scores",
    "Surrogate",
    "annealed",
    "aucpr",
    "blackbox_rank",
    "class_balanced",
    "cost_sensitive_f",
    "cross_entropy",
    "fast_ap",
    "hinge",
    "jaccard_extension",
    "large_margin_softmax",
    "log_odds",
    "logistic",
    "lovasz_hinge",
    "lovasz_softmax",
    "margin_cosine",
    "pairwise_aucroc",
    "raw_logits",
    "recall",
]

# A new file with one decorator is found by itself.
import_all(__name__)
