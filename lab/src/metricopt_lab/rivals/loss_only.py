"""Finetuning on the training loss, blind to the metric."""

from metricopt.core.records import Outcome
from metricopt.task.base import Task
from metricopt_lab.rivals.descent import loss_path, train_batches
from metricopt_lab.rivals.named import baseline


@baseline("loss_only")
def loss_only(task: Task, *, queries: int, seed: int) -> Outcome:  # noqa: ARG001
    """Finetuning of phi on the training loss without any query: the last iterate, better or worse.

    Example:
        >>> from metricopt_lab.problems import QuadraticTask
        >>> task = QuadraticTask(dim=2)
        >>> outcome = loss_only(task, queries=10, seed=0)
        >>> task.ledger.used, len(outcome.incumbents)
        (0, 1)
    """
    phi = loss_path(task, train_batches(task, seed))[-1]
    return Outcome(phi, ((0, phi),))
