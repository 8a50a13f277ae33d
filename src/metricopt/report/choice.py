"""Which of the queries was judged on held-out data, and why that one."""

from metricopt.report.run import Run
from metricopt.report.words import number, plural


def choice(run: Run) -> str:
    """A sentence or two, or nothing where phi was not recorded or is that of no query.

    Example:
        >>> import numpy as np
        >>> start = {"metric": {"name": "f1"}}
        >>> run = Run(start, stages=("start", "value"), costs=np.array([0.4, 0.3]), points=np.array([[0.0], [1.0]]),
        ...           proposal=np.array([1.0]), accepted={"accepted": True})
        >>> choice(run)
        'Kept is query 2 (stage value), the best answer on the search data: f1 0.7000.'
    """
    judged, lowest = run.judged, run.lowest
    if judged is None or lowest is None:
        return ""
    if run.at_original(judged):
        return "No query answered better than the original by more than luck, so there was nothing to keep."
    said = f"{'Kept' if run.kept is not None else 'Judged'} is query {judged + 1} (stage {run.stages[judged]})"
    if run.values[judged] == run.values[lowest]:
        return f"{said}, the best answer on the search data: {run.metric} {_value(run, judged)}."
    return f"{said}, with {run.metric} {_value(run, judged)} on the search data. {_why_not(run, lowest)}"


def _why_not(run: Run, lowest: int) -> str:
    better = f"Query {lowest + 1} answered better there ({_value(run, lowest)})"
    if run.result.get("plainer"):
        return (
            f"{better}, but what is kept is a start or a shift of the outputs, or an earlier point, and the "
            f"search's best was not surely better than that."
        )
    tried = plural(int(run.answered.sum()), "answer")
    return f"{better}, but by no more than the luck of the best among {tried}."


def _value(run: Run, index: int) -> str:
    return number(float(run.values[index]))
