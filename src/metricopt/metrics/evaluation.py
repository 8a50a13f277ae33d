"""Metrics in the style of Hugging Face's `evaluate`: `compute(predictions=..., references=...)` gives a mapping."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from metricopt.core.errors import MetricError


def is_evaluation(candidate: Any) -> bool:
    """Whether it has a name and computes from predictions and references.

    Example:
        >>> is_evaluation(max)
        False
    """
    compute, name = getattr(candidate, "compute", None), getattr(candidate, "name", None)
    if not callable(compute) or not isinstance(name, str):
        return False
    return {"predictions", "references"} <= set(inspect.signature(compute).parameters)


@dataclass(frozen=True)
class Evaluation:
    """Such an object as a function of truth and prediction.

    Attributes:
        metric: The object.
        key: Which entry of its answer; the only one if None.

    Example:
        >>> class Share:
        ...     name = "share"
        ...     def compute(self, *, predictions=None, references=None):
        ...         return {"share": sum(p == r for p, r in zip(predictions, references)) / len(references)}
        >>> Evaluation(Share())([0, 1], [1, 1])
        0.5
    """

    metric: Any
    key: str | None = None

    def __call__(self, y_true: Any, prediction: Any) -> Any:
        """The entry for these rows."""
        answer = self.metric.compute(predictions=prediction, references=y_true)
        if self.key is None and isinstance(answer, Mapping) and len(answer) == 1:
            return next(iter(answer.values()))
        if not isinstance(answer, Mapping) or self.key not in answer:
            found = ", ".join(map(repr, answer)) if isinstance(answer, Mapping) else repr(answer)[:60]
            raise MetricError(f"it answered with {found}, but key={self.key!r}: name an entry by Metric(..., key=...)")
        return answer[self.key]
