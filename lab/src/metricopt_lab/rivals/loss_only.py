"""Finetuning on the training loss, blind to the metric."""

from metricopt.core.records import Outcome
from metricopt.task.oracle import Oracle
from metricopt_lab.rivals.descent import loss_path, train_batches
from metricopt_lab.rivals.named import baseline


@baseline("loss_only")
def loss_only(oracle: Oracle, *, queries: int, seed: int) -> Outcome:  # noqa: ARG001
    """Finetuning of phi on the training loss without any query: the last iterate, better or worse.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task = QuadraticTask(dim=2)
        >>> oracle = Oracle(task)
        >>> outcome = loss_only(oracle, queries=10, seed=0)
        >>> oracle.ledger.used, len(outcome.incumbents)
        (0, 1)
    """
    phi = loss_path(oracle.task, train_batches(oracle.task, seed))[-1]
    return Outcome(phi, ((0, phi),))
