"""Finetuning on the labels of the metric's own data, then CMA-ES from there."""

from metricopt.baselines.cma_es import search_cma
from metricopt.baselines.label_finetune import finetuned_incumbent
from metricopt.baselines.named import baseline
from metricopt.records import Outcome
from metricopt.task import Task

SIGMA = 0.1


@baseline("label_finetune_then_cma", needs_labels=True)
def label_finetune_then_cma(task: Task, *, queries: int, seed: int) -> Outcome:
    """Finetuning of phi by the loss on the labels of the metric's own data, then CMA-ES around the result.

    Example:
        >>> from metricopt.baselines import BASELINES
        >>> BASELINES["label_finetune_then_cma"].needs_labels
        True
    """
    best = finetuned_incumbent(task, queries=queries, seed=seed)
    search_cma(best, sigma=SIGMA, seed=seed)
    return best.outcome()
