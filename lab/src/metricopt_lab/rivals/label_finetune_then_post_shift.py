"""Finetuning on the labels of the metric's own data, then post-hoc tuning."""

from metricopt.core.records import Outcome
from metricopt.task.oracle import Oracle
from metricopt_lab.rivals.label_finetune import finetuned_incumbent
from metricopt_lab.rivals.named import baseline
from metricopt_lab.rivals.post_shift import search_shifts, shift_axes


@baseline("label_finetune_then_post_shift", needs_labels=True)
def label_finetune_then_post_shift(oracle: Oracle, *, queries: int, seed: int) -> Outcome:
    """Finetuning of phi by the loss on the labels of the metric's own data, then post-hoc shifts.

    Example:
        >>> from metricopt_lab.rivals import BASELINES
        >>> BASELINES["label_finetune_then_post_shift"].needs_labels
        True
    """
    best = finetuned_incumbent(oracle, queries=queries, seed=seed)
    search_shifts(best, shift_axes(oracle.probe), queries=best.left)
    return best.outcome()
