"""Finetuning on the training loss with the metric as a judge."""

from metricopt.core.records import Outcome
from metricopt.task.base import Task
from metricopt_lab.rivals.descent import loss_path, train_batches
from metricopt_lab.rivals.incumbent import Incumbent
from metricopt_lab.rivals.named import baseline


@baseline("loss_dense")
def loss_dense(task: Task, *, queries: int, seed: int) -> Outcome:
    """Finetuning of phi on the training loss, the metric queried at every step and the best step kept.

    As many steps as queries: what the queries are worth without a search of their own.

    Example:
        >>> from metricopt_lab.problems import QuadraticTask
        >>> task = QuadraticTask(dim=2)
        >>> outcome = loss_dense(task, queries=30, seed=0)
        >>> task.ledger.used, bool(task.costs(outcome.phi[None]) < task.costs(0 * outcome.phi[None]))
        (30, True)
    """
    best = Incumbent(task, queries=queries)
    best.observe(loss_path(task, train_batches(task, seed), steps=best.left)[1:])
    return best.outcome()
