"""Finetuning on the training loss with the metric as a judge."""

from metricopt.core.records import Outcome
from metricopt.task.oracle import Oracle
from metricopt_lab.rivals.descent import loss_path, train_batches
from metricopt_lab.rivals.incumbent import Incumbent
from metricopt_lab.rivals.named import baseline


@baseline("loss_dense")
def loss_dense(oracle: Oracle, *, queries: int, seed: int) -> Outcome:
    """Finetuning of phi on the training loss, the metric queried at every step and the best step kept.

    As many steps as queries: what the queries are worth without a search of their own.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task = QuadraticTask(dim=2)
        >>> oracle = Oracle(task)
        >>> outcome = loss_dense(oracle, queries=30, seed=0)
        >>> oracle.ledger.used, bool(task.costs(outcome.phi[None]) < task.costs(0 * outcome.phi[None]))
        (30, True)
    """
    best = Incumbent(oracle, queries=queries)
    best.observe(loss_path(oracle.task, train_batches(oracle.task, seed), steps=best.left)[1:])
    return best.outcome()
