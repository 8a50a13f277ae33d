"""Black-box metrics: any function of truth and prediction, and a registry of named ones with batched forms."""

from metricopt.core.registry import import_all
from metricopt.metrics.classification import (
    accuracy,
    balanced_error,
    f_beta,
    g_mean,
    jaccard,
    macro_f1,
    mcr,
    worst_class_recall,
)
from metricopt.metrics.constraint import Constraint
from metricopt.metrics.detection import ap50, ap_coco, box_precision
from metricopt.metrics.external import CommandMetric, HttpMetric
from metricopt.metrics.grouped import worst_group_accuracy
from metricopt.metrics.metric import Metric
from metricopt.metrics.named import METRICS, as_metric
from metricopt.metrics.predictions import labels_of, margin_of, outputs_of, scores_of
from metricopt.metrics.ranking import (
    aucpr,
    aucpr_macro,
    aucpr_micro,
    auroc,
    precision_at_recall,
    precision_at_top,
    top_k_error,
)
from metricopt.metrics.resampling import ByQuery, Resampling
from metricopt.metrics.retrieval import map_at_r, precision_at_1, r_precision, recall_at_k

__all__ = [
    "METRICS",
    "ByQuery",
    "CommandMetric",
    "Constraint",
    "HttpMetric",
    "Metric",
    "Resampling",
    "accuracy",
    "ap50",
    "ap_coco",
    "as_metric",
    "aucpr",
    "aucpr_macro",
    "aucpr_micro",
    "auroc",
    "balanced_error",
    "box_precision",
    "f_beta",
    "g_mean",
    "jaccard",
    "labels_of",
    "macro_f1",
    "map_at_r",
    "margin_of",
    "mcr",
    "outputs_of",
    "precision_at_1",
    "precision_at_recall",
    "precision_at_top",
    "r_precision",
    "recall_at_k",
    "scores_of",
    "top_k_error",
    "worst_class_recall",
    "worst_group_accuracy",
]

# A new file with one decorator is found by itself.
import_all(__name__)
