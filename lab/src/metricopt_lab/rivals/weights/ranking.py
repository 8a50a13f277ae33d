"""Losses about the order of scores, for metrics that are."""

from functools import partial

from metricopt.losses import Loss, aucpr, pairwise_aucroc, raw_logits
from metricopt.metrics import Metric


def ranking_loss(metric: Metric) -> Loss | None:
    """The AUCPR or the pairwise loss where the metric is about scores, else None.

    Example:
        >>> from metricopt.metrics import METRICS
        >>> ranking_loss(METRICS["f1"]()) is None, ranking_loss(METRICS["aucpr"]()) is None
        (True, False)
    """
    if metric.on == "labels":
        return None
    scored = {"scores": raw_logits} if metric.name.endswith("by_logit") else {}
    return partial(pairwise_aucroc if metric.name.startswith(("auroc", "recall_at")) else aucpr, **scored)
