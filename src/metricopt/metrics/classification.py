"""Metrics on predicted labels."""

import functools

import torch
from torch import Tensor

from metricopt.core.errors import MetricError
from metricopt.metrics.counts import ClassCounts, class_counts, ratio
from metricopt.metrics.metric import Metric
from metricopt.metrics.named import METRICS, population_metric


@METRICS.add("mcr")
def mcr() -> Metric:
    """Misclassification rate: the share of wrong labels.

    Example:
        >>> mcr().value(torch.tensor([1.0, 1.0, -1.0, -1.0]), torch.tensor([1, 1, 1, 0]))
        0.25
    """
    return population_metric(_error_rate, name="mcr", on="labels", goal="min")


@METRICS.add("accuracy")
def accuracy() -> Metric:
    """Share of right labels. It is what the column "JAC" of the paper's Table 3 shows.

    Example:
        >>> accuracy().value(torch.tensor([1.0, 1.0, -1.0, -1.0]), torch.tensor([1, 1, 1, 0]))
        0.75
    """
    return population_metric(_accuracy, name="accuracy", on="labels", goal="max")


@METRICS.add("f1")
@METRICS.add("f_beta")
def f_beta(beta: float = 1.0) -> Metric:
    """F-beta of class 1 of two: recall counts `beta` times as much as precision; 0 if there is no positive at all.

    Example:
        >>> f_beta(beta=2.0)
        Metric('f_beta(beta=2)', on='labels', goal='max')
        >>> f_beta().value(torch.tensor([1.0, 1.0, 1.0, -1.0]), torch.tensor([1, 0, 0, 0]))
        0.5
    """
    if not beta > 0:
        raise MetricError(f"beta is {beta}; F-beta needs a positive one: 1 weighs precision and recall equally")
    name = "f1" if beta == 1 else f"f_beta(beta={beta:g})"
    return population_metric(functools.partial(_f_beta, beta=beta), name=name, on="labels", goal="max")


@METRICS.add("jaccard")
def jaccard() -> Metric:
    """Jaccard index of class 1 of two: examples both true and predicted among those either; 0 if there are none.

    This is the true one; for what the paper's Table 3 calls "JAC" see `accuracy`.

    Example:
        >>> jaccard().value(torch.tensor([1.0, 1.0, 1.0, -1.0]), torch.tensor([1, 0, 0, 1]))
        0.25
    """
    return population_metric(_jaccard, name="jaccard", on="labels", goal="max")


@METRICS.add("g_mean")
def g_mean() -> Metric:
    """Geometric mean of the recalls of the classes that the targets contain.

    There is no smoothing: one class with zero recall gives 0.

    Example:
        >>> g_mean().value(torch.tensor([1.0, -1.0, -1.0]), torch.tensor([1, 1, 0])) == 0.5**0.5
        True
    """
    return population_metric(_g_mean, name="g_mean", on="labels", goal="max")


@METRICS.add("balanced_error")
def balanced_error() -> Metric:
    """One minus the mean recall of the classes that the targets contain.

    Example:
        >>> balanced_error().value(torch.tensor([1.0, -1.0, -1.0]), torch.tensor([1, 1, 0]))
        0.25
    """
    return population_metric(_balanced_error, name="balanced_error", on="labels", goal="min")


@METRICS.add("macro_f1")
def macro_f1() -> Metric:
    """Mean F1 of the classes that occur in the targets or among the predictions.

    Example:
        >>> macro_f1().value(torch.tensor([1.0, -1.0]), torch.tensor([1, 0]))
        1.0
    """
    return population_metric(_macro_f1, name="macro_f1", on="labels", goal="max")


@METRICS.add("worst_class_recall")
def worst_class_recall() -> Metric:
    """Smallest recall among the classes that the targets contain.

    Example:
        >>> worst_class_recall().value(torch.tensor([1.0, -1.0, -1.0]), torch.tensor([1, 1, 0]))
        0.5
    """
    return population_metric(_worst_class_recall, name="worst_class_recall", on="labels", goal="max")


def _accuracy(targets: Tensor, labels: Tensor) -> Tensor:
    counts = class_counts(targets, labels)
    return counts.hits.sum(1) / counts.actual.sum(1)


def _error_rate(targets: Tensor, labels: Tensor) -> Tensor:
    return 1.0 - _accuracy(targets, labels)


def _f_beta(targets: Tensor, labels: Tensor, *, beta: float) -> Tensor:
    hits, actual, predicted = _positive_counts(targets, labels)
    return ratio((1 + beta**2) * hits, beta**2 * actual + predicted)


def _jaccard(targets: Tensor, labels: Tensor) -> Tensor:
    hits, actual, predicted = _positive_counts(targets, labels)
    return ratio(hits, actual + predicted - hits)


def _g_mean(targets: Tensor, labels: Tensor) -> Tensor:
    counts = class_counts(targets, labels)
    return _mean_over(counts.recall.log(), counts.present).exp()


def _balanced_error(targets: Tensor, labels: Tensor) -> Tensor:
    counts = class_counts(targets, labels)
    return 1.0 - _mean_over(counts.recall, counts.present)


def _macro_f1(targets: Tensor, labels: Tensor) -> Tensor:
    counts = class_counts(targets, labels)
    f1 = ratio(2 * counts.hits, counts.actual + counts.predicted)
    return _mean_over(f1, counts.actual + counts.predicted > 0)


def _worst_class_recall(targets: Tensor, labels: Tensor) -> Tensor:
    counts = class_counts(targets, labels)
    return counts.recall.masked_fill(~counts.present, torch.inf).amin(1)


def _mean_over(values: Tensor, chosen: Tensor) -> Tensor:
    """Mean of the chosen classes, (population, classes) -> (population,)."""
    return values.masked_fill(~chosen, 0.0).sum(1) / chosen.sum(1)


def _positive_counts(targets: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Hits, actual and predicted examples of class 1, (population,) each."""
    counts: ClassCounts = class_counts(targets, labels)
    classes = counts.actual.shape[1]
    if classes > 2:
        raise MetricError(f"class {classes - 1} occurs, but only two classes, 0 and 1, are expected: use 'macro_f1'")
    if classes == 1:  # neither the targets nor any member ever say 1
        nothing = torch.zeros_like(counts.hits[:, 0])
        return nothing, nothing, nothing
    return counts.hits[:, 1], counts.actual[:, 1], counts.predicted[:, 1]
