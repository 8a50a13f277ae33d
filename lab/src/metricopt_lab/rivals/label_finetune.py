"""Finetuning on the labels of the metric's own data."""

from metricopt.core.records import Outcome
from metricopt.task.oracle import Oracle
from metricopt_lab.rivals.descent import label_batches, loss_path
from metricopt_lab.rivals.incumbent import Incumbent
from metricopt_lab.rivals.named import baseline


@baseline("label_finetune", needs_labels=True)
def label_finetune(oracle: Oracle, *, queries: int, seed: int) -> Outcome:  # noqa: ARG001
    """Finetuning of phi by the loss on the labels of the metric's own data, without a query: the last iterate.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> label_finetune(Oracle(QuadraticTask()), queries=1, seed=0)
        Traceback (most recent call last):
        metricopt.core.errors.DataError: a rival that learns from the targets of the metric's data was given ...
    """
    phi = loss_path(oracle.task, label_batches(oracle.task, seed))[-1]
    return Outcome(phi, ((0, phi),))


def finetuned_incumbent(oracle: Oracle, *, queries: int, seed: int) -> Incumbent:
    """The end of `label_finetune` as the first query and phi = 0 as the second, the better one the incumbent."""
    phi = label_finetune(oracle, queries=0, seed=seed).phi
    best = Incumbent(oracle, queries=queries, start=phi)
    best.observe(0 * phi[None])
    return best
