"""Black-box differentiation of ranks (Rolínek et al. 2020, "RaMBO"), as a loss that finetunes phi.

As published: a metric of ranks is written down as such, and the ranks in it are differentiated as a black box
(`metricopt.losses.blackbox_rank`); scores of positives are pushed down by half a margin and those of others up.

Ours: average precision of each class against the rest for metrics about the order of scores, as in the authors' AP
loss, and for metrics about classes the logarithm of one plus the classes that rank before the true one, as in their
recall loss; `LAMBDA`, `MARGIN` and `PACE`, since their code has no defaults; and which step is kept: the metric is
asked along the path, at equal distances, and the best step counts.
"""

from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from metricopt.core.records import Outcome
from metricopt.core.seeding import stream
from metricopt.losses.blackbox_rank import blackbox_ap, blackbox_rank
from metricopt.losses.named import classes_of, membership, two_columns
from metricopt.losses.surrogates import Scores, log_odds, raw_logits
from metricopt.metrics import Metric
from metricopt.task.oracle import Oracle
from metricopt_lab.rivals.incumbent import Incumbent
from metricopt_lab.rivals.published.lesson import Lesson, OutputLoss, Pace, trained
from metricopt_lab.rivals.published.named import published

LAMBDA, MARGIN = 4.0, 0.1
"""In the authors' units, in which ranks go from 0 to 1, and in units of logits."""

PACE = Pace(steps=200, lr=0.1)
"""Chosen on CoverType with seven classes (macro F1, seed 100, 61 queries), which no table has, by the gain on accept
rows: phi at .02, .1, .5 gave -.003, .023, 0, weights at .1, .5 .003, 0. Steps, `LAMBDA` and `MARGIN` were not
tuned.
"""


@published("rambo")
def rambo(oracle: Oracle, *, queries: int, seed: int, pace: Pace | None = None) -> Outcome:
    """Black-box differentiation: phi follows the metric's ranks on training rows, the best of the steps asked about."""
    best, lesson, pace = Incumbent(oracle, queries=queries), Lesson(oracle), pace or PACE
    if best.left <= 0:
        return best.outcome()
    start = torch.zeros(1, oracle.dim)
    path = trained(lesson, rank_loss(lesson.task.metric), start, pace=pace, generator=stream(seed, "rambo"))
    asked = torch.linspace(1, pace.steps, min(best.left, pace.steps)).round().long().tolist()
    for number, step in enumerate(path, 1):
        if number in asked:
            best.observe(step.phi)
    return best.outcome()


def rank_loss(metric: Metric) -> OutputLoss:
    """Average precision by ranks where the metric is about scores, errors by ranks where it is about classes."""
    if metric.on == "labels":
        one = error_by_ranks
    else:
        one = partial(precision_by_ranks, scores=raw_logits if "logit" in metric.name else log_odds)
    return lambda outputs, rows: torch.vmap(one)(outputs, rows.targets)


def precision_by_ranks(outputs: Tensor, targets: Tensor, *, scores: Scores = log_odds) -> Tensor:
    """One minus the average precision of each class against the rest, the mean over the classes present.

    Of two classes it is about class 1.

    Example:
        >>> float(precision_by_ranks(torch.tensor([2.0, -2.0, 1.0]), torch.tensor([1, 0, 1])))
        0.0
    """
    columns = scores(outputs)
    member = membership(classes_of(outputs, targets), columns.shape[1])
    if columns.shape[1] == 2:
        columns, member = columns[:, 1:], member[:, 1:]
    each = torch.vmap(partial(blackbox_ap, lam=LAMBDA, margin=MARGIN), in_dims=1)(columns, member)
    present = member.any(0)
    return torch.where(present, 1 - each, 0.0).sum() / present.sum().clamp(min=1)


def error_by_ranks(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean of log(1 + classes that rank before the true one).

    Example:
        >>> logits = torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, 3.0]])
        >>> float(error_by_ranks(logits, torch.tensor([0, 2])))
        0.0
    """
    logits = two_columns(outputs)
    true = functional.one_hot(classes_of(outputs, targets), logits.shape[1]).to(logits)
    ranks = blackbox_rank(logits - MARGIN * (true - 0.5), LAMBDA * logits.shape[1])
    return (torch.log1p(ranks - 1) * true).sum(1).mean()
