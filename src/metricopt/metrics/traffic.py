"""How often metrics are really called: within parts once for each, outside more often than asked after accidents."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from metricopt.metrics.external.metrics import Outside
from metricopt.metrics.metric import Metric
from metricopt.metrics.within_parts import WithinParts


def calls_beyond(metrics: Iterable[Metric]) -> int:
    """Calls that commands, servers and metrics within parts got so far, beyond one for each question.

    Example:
        >>> outside = Outside(lambda question: "0.25", retries=0)
        >>> metric = Metric(outside, on="labels", goal="max", name="far")
        >>> import torch
        >>> [metric.value(torch.ones(2), torch.tensor([0, 1])) for _ in range(3)], calls_beyond([metric])
        ([0.25, 0.25, 0.25], -2)
    """
    functions = {
        id(metric.function): metric.function for metric in metrics if isinstance(metric.function, Outside | WithinParts)
    }
    return sum(function.beyond for function in functions.values())


def attempts_of(metric: Metric) -> int:
    """The most calls that one question can take.

    Example:
        >>> from metricopt.metrics import as_metric
        >>> attempts_of(as_metric("f1"))
        1
    """
    if isinstance(metric.function, WithinParts):
        return metric.function.parts
    return 1 + metric.function.retries if isinstance(metric.function, Outside) else 1


@contextmanager
def asked_afresh(metrics: Iterable[Metric]) -> Iterator[None]:
    """Within this context metrics outside really go out, whatever they remember.

    Example:
        >>> outside = Outside(lambda question: "0.25", retries=0)
        >>> metric = Metric(outside, on="labels", goal="max", name="far")
        >>> import torch
        >>> with asked_afresh([metric]):
        ...     _ = [metric.value(torch.ones(2), torch.tensor([0, 1])) for _ in range(3)]
        >>> outside.calls
        3
    """
    outside = [metric.function for metric in metrics if isinstance(metric.function, Outside)]
    for function in outside:
        function.forgets = True
    try:
        yield
    finally:
        for function in outside:
            function.forgets = False
