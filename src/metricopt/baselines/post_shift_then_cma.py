"""Post-hoc tuning, then CMA-ES from there."""

from metricopt.baselines.cma_es import search_cma
from metricopt.baselines.incumbent import Incumbent
from metricopt.baselines.named import baseline
from metricopt.baselines.post_shift import search_shifts, shift_axes
from metricopt.records import Outcome
from metricopt.task import Task

SHIFT_SHARE, SIGMA = 0.5, 0.3


@baseline("post_shift_then_cma")
def post_shift_then_cma(task: Task, *, queries: int, seed: int) -> Outcome:
    """Post-hoc shifts with at most half of the queries, then CMA-ES around the best of them.

    Example:
        >>> from metricopt.tasks import QuadraticTask
        >>> task = QuadraticTask(dim=4)
        >>> bool(task.costs(post_shift_then_cma(task, queries=150, seed=0).phi[None]) < 0.05)
        True
    """
    best = Incumbent(task, queries=queries)
    search_shifts(best, shift_axes(task), queries=int(SHIFT_SHARE * best.left))
    search_cma(best, sigma=SIGMA, seed=seed)
    return best.outcome()
