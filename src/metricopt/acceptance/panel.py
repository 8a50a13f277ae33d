"""Workers who answer for a decision: what will be asked about is handed out at once, and collected one by one."""

from collections.abc import Callable, Sequence
from typing import Any, final

from torch import Tensor

from metricopt.core.tree import rows
from metricopt.metrics import Metric
from metricopt.run.workers import Crew
from metricopt.task.answers import settled
from metricopt.task.desk import Question, Said
from metricopt.task.oracle import Oracle, unanswered
from metricopt.task.predictions import Predictions

Alone = Callable[[int], Callable[[Tensor], Tensor]]
"""From a candidate to a function from rows (1, n) to its value there, (1, 1)."""


@final
class Panel:
    """A crew with a desk that knows the held-out data.

    Attributes:
        beyond: Calls so far beyond one a question: lost with their workers, or attempts of a metric outside.
    """

    def __init__(self, crew: Crew, metrics: Sequence[Metric]) -> None:
        self._crew, self._metrics, self.beyond = crew, tuple(metrics), 0
        self._tickets: dict[tuple[int, int, bytes], int] = {}

    def ahead(
        self, metric: Metric, phis: Tensor, candidates: Sequence[Any], wanted: Sequence[tuple[int, Tensor]]
    ) -> None:
        """Hand out what will be asked: candidates, by number, each on some rows (n,)."""
        for one, index in wanted:
            key = self._key(metric, one, index)
            if key not in self._tickets:
                self._tickets[key] = self._crew.ask(self._question(metric, phis, candidates, one, index))

    def alone(self, metric: Metric, phis: Tensor, candidates: Sequence[Any]) -> Alone:
        """Each candidate's values; what was not handed out before is now."""

        def of(one: int) -> Callable[[Tensor], Tensor]:
            def value(index: Tensor) -> Tensor:
                self.ahead(metric, phis, candidates, [(one, index[0])])
                return self._collected(self._key(metric, one, index[0]))

            return value

        return of

    def _collected(self, key: tuple[int, int, bytes]) -> Tensor:
        answered = self._crew.answer([self._tickets.pop(key)])
        assert answered is not None
        said: Said = answered.answer or unanswered(1, answered.lost)
        self.beyond += said.beyond + answered.lost
        return settled(iter([said.answer(0, 0)]), 1)[:, None]

    def _question(self, metric: Metric, phis: Tensor, candidates: Sequence[Any], one: int, index: Tensor) -> Question:
        phi, candidate = phis[one : one + 1], candidates[one]
        if metric.on == "model":
            shown = Predictions(phi, rows=index)
        elif metric.on == "outputs":
            shown = Predictions(phi, None, [rows(candidate, index)], rows=index)
        else:
            shown = Predictions(phi, candidate[index][None], rows=index)
        return Question((self._number(metric),), shown, data="holdout")

    def _number(self, metric: Metric) -> int:
        """Which of the desk's it is: copies that are anchored or known to be dear have the same function."""
        return next(number for number, own in enumerate(self._metrics) if own.function is metric.function)

    def _key(self, metric: Metric, one: int, index: Tensor) -> tuple[int, int, bytes]:
        return self._number(metric), one, index.numpy().tobytes()


def panel_of(oracle: Oracle) -> Panel | None:
    """The oracle's workers for the decision; nobody if it has none."""
    if oracle.crew is None:
        return None
    return Panel(oracle.crew, [*oracle.task.metrics, *(each.metric for each in oracle.keep)])
