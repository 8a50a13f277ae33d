"""Metrics on the order of scores.

Those about two classes look at margins of logits, which rank as probabilities do but do not saturate: two examples
whose probabilities both round to 1 would be a tie.
"""

import functools
import math
from typing import Literal, get_args

import torch
from torch import Tensor

from metricopt.core.errors import MetricError
from metricopt.core.registry import one_of
from metricopt.metrics.adopted import On
from metricopt.metrics.counts import ratio
from metricopt.metrics.curves import area_under_roc, average_precision, curve
from metricopt.metrics.metric import Metric
from metricopt.metrics.named import METRICS, population_metric
from metricopt.metrics.predictions import margin_of

By = Literal["probability", "logit"]


@METRICS.add("aucpr")
def aucpr() -> Metric:
    """Area under the precision-recall curve of class 1 of two, as average precision; 0 without positives.

    Example:
        >>> round(aucpr().value(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([1, 0, 1])), 4)
        0.8333
    """
    return population_metric(_aucpr, name="aucpr", on="logits", goal="max")


@METRICS.add("auroc")
def auroc() -> Metric:
    """Area under the ROC curve of class 1 of two; undefined, hence an error, unless the targets contain both.

    Example:
        >>> auroc().value(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([1, 0, 1]))
        0.5
    """
    return population_metric(_auroc, name="auroc", on="logits", goal="max")


@METRICS.add("aucpr_macro")
def aucpr_macro(by: By = "probability") -> Metric:
    """Mean average precision of each class against the rest, by its probability or its logit.

    A class without examples has no such curve and is left out. Multi-label targets are taken column by column. By
    logits it asks more of a network: the softmax forgives a shift of all logits of an example, a ranking of examples
    by one logit does not, and no shift or scale of a whole column changes it.

    Example:
        >>> logits = torch.tensor([[3.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 3.0]])
        >>> aucpr_macro().value(logits, torch.tensor([0, 1, 2]))
        1.0
    """
    on, name = _shown(by, "aucpr_macro")
    return population_metric(_aucpr_macro, name=name, on=on, goal="max")


@METRICS.add("aucpr_micro")
def aucpr_micro(by: By = "probability") -> Metric:
    """Average precision over all pairs of example and class, by probability or by logit.

    Example:
        >>> logits = torch.tensor([[3.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 3.0]])
        >>> aucpr_micro().value(logits, torch.tensor([0, 1, 2]))
        1.0
    """
    on, name = _shown(by, "aucpr_micro")
    return population_metric(_aucpr_micro, name=name, on=on, goal="max")


@METRICS.add("precision_at_recall")
def precision_at_recall(recall: float = 0.9) -> Metric:
    """Best precision of class 1 of two among thresholds whose recall is at least `recall`; 0 without positives.

    Example:
        >>> metric = precision_at_recall(recall=1.0)
        >>> metric.value(torch.tensor([3.0, 2.0, 1.0, 0.0]), torch.tensor([0, 1, 0, 1]))
        0.5
    """
    if not 0 < recall <= 1:
        raise MetricError(f"recall is {recall}; a share above 0 and at most 1 is expected: 0.9 is common")
    batched = functools.partial(_precision_at_recall, recall=recall)
    return population_metric(batched, name=f"precision_at_recall(recall={recall:g})", on="logits", goal="max")


@METRICS.add("precision_at_top")
def precision_at_top(fraction: float = 0.1) -> Metric:
    """Precision of class 1 of two among the top-scored `fraction` of examples, rounded up to whole ones.

    If equal scores straddle the border, it is the mean over all ways of breaking the tie.

    Example:
        >>> precision_at_top(fraction=0.5).value(torch.tensor([3.0, 2.0, 1.0, 0.0]), torch.tensor([1, 0, 1, 0]))
        0.5
    """
    if not 0 < fraction <= 1:
        raise MetricError(f"fraction is {fraction}; a share above 0 and at most 1 is expected: 0.1 is the top tenth")
    batched = functools.partial(_precision_at_top, fraction=fraction)
    return population_metric(batched, name=f"precision_at_top(fraction={fraction:g})", on="logits", goal="max")


@METRICS.add("top_k_error")
@METRICS.add("top5_error")
def top_k_error(k: int = 5) -> Metric:
    """Share of examples whose class is not among the `k` with the largest outputs.

    Among equal outputs the later classes count as larger, as in scikit-learn; `mcr` takes the first one.

    Example:
        >>> top_k_error(k=2).value(torch.tensor([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]]), torch.tensor([1, 2]))
        0.5
    """
    if k < 1:
        raise MetricError(f"k is {k}; at least one class must be predicted: the usual choice is 5")
    return population_metric(functools.partial(_top_k_error, k=k), name=f"top{k}_error", on="logits", goal="min")


def _aucpr(targets: Tensor, outputs: Tensor) -> Tensor:
    return average_precision(_positives(targets), margin_of(outputs))


def _auroc(targets: Tensor, outputs: Tensor) -> Tensor:
    return area_under_roc(_positives(targets), margin_of(outputs))


def _aucpr_macro(targets: Tensor, scores: Tensor) -> Tensor:
    truth, scores = _one_against_rest(targets, scores)
    population, n, classes = truth.shape
    columns = [part.transpose(1, 2).reshape(population * classes, n) for part in (truth, scores)]
    each = average_precision(*columns).view(population, classes)
    present = truth.any(1)
    return ratio((each * present).sum(1), present.double().sum(1))


def _shown(by: By, name: str) -> tuple[On, str]:
    """What a ranking of classes is shown, and what it is called then."""
    one_of(by, get_args(By), what="by")
    return ("scores", name) if by == "probability" else ("logits", f"{name}_by_logit")


def _aucpr_micro(targets: Tensor, scores: Tensor) -> Tensor:
    truth, scores = _one_against_rest(targets, scores)
    return average_precision(truth.flatten(1), scores.flatten(1))


def _precision_at_recall(targets: Tensor, outputs: Tensor, *, recall: float) -> Tensor:
    ranking = curve(_positives(targets), margin_of(outputs))
    allowed = ranking.ends & (ranking.recall >= recall)
    return torch.where(allowed, ranking.precision, 0.0).amax(1)


def _precision_at_top(targets: Tensor, outputs: Tensor, *, fraction: float) -> Tensor:
    positives, margins = _positives(targets), margin_of(outputs)
    count = max(1, math.ceil(fraction * margins.shape[1] - 1e-9))  # 0.1 * n may round to just above a whole number
    border = margins.topk(count, dim=1).values[:, -1:]
    above, tied = margins > border, margins == border
    left = count - above.sum(1)
    tied_share = (positives & tied).sum(1).double() / tied.sum(1)
    return ((positives & above).sum(1) + left * tied_share) / count


def _top_k_error(targets: Tensor, outputs: Tensor, *, k: int) -> Tensor:
    classes = outputs.shape[-1] if outputs.ndim == 3 else 1
    if k >= classes:
        raise MetricError(f"the top {k} of {classes} output columns leave nothing to miss: choose k below {classes}")
    truth = _class_numbers(targets, classes).unsqueeze(-1)  # (population, n, 1)
    own = outputs.gather(-1, truth)
    later = torch.arange(classes, device=outputs.device) > truth
    ahead = (outputs > own) | ((outputs == own) & later)  # (population, n, classes)
    return (ahead.sum(-1) >= k).double().mean(1)


def _positives(targets: Tensor) -> Tensor:
    """Whether each example is of class 1, (population, n)."""
    targets = targets.squeeze(-1) if targets.ndim == 3 and targets.shape[-1] == 1 else targets
    if targets.ndim != 2 or not ((targets == 0) | (targets == 1)).all():
        found = sorted(set(targets.flatten()[:1000].tolist()))[:5]
        raise MetricError(f"targets hold {found}; 0 and 1, one each example, are expected: renumber the two classes")
    return targets == 1


def _class_numbers(targets: Tensor, classes: int) -> Tensor:
    targets = targets.squeeze(-1) if targets.ndim == 3 and targets.shape[-1] == 1 else targets
    low, high = targets.min().item(), targets.max().item()
    if targets.ndim != 2 or low < 0 or high >= classes:
        raise MetricError(
            f"targets {tuple(targets.shape)} from {low:g} to {high:g} do not name one of {classes} columns each: "
            f"number the classes 0 to {classes - 1}"
        )
    return targets.long()


def _one_against_rest(targets: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Membership and score of each example in each class, both (population, n, classes)."""
    if targets.ndim == 3:
        return targets == 1, scores
    if scores.ndim == 2:
        scores = torch.stack([1.0 - scores, scores], dim=-1)
    classes = scores.shape[-1]
    truth = _class_numbers(targets, classes).unsqueeze(-1) == torch.arange(classes, device=scores.device)
    return truth, scores
