"""Budgets share the finetunings of `optimize`, which do not depend on the budget, and each is told their whole time.

A run of its own for each budget would make the very same networks again: four fifths of the benchmark's hours.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, final
from unittest import mock

from metricopt.api import weights
from metricopt_lab.rivals.weights.finetunings import Clock


@final
class SharedFits:
    """Plans and finetunings of one problem, made once for each effort.

    Attributes:
        spared: Time of what was not made again, since the last look.
    """

    def __init__(self) -> None:
        self.spared = Clock(0.0, 0.0)
        self._known: dict[tuple[Any, ...], tuple[Any, Clock]] = {}

    @contextmanager
    def within(self) -> Iterator[None]:
        """While it lasts, what `optimize` would finetune once more is what it finetuned before."""
        self.spared = Clock(0.0, 0.0)
        plan, fit = self._once("plan", weights.plan_of), self._once("fit", weights.fit)
        with mock.patch.object(weights, "plan_of", plan), mock.patch.object(weights, "fit", fit):
            yield

    def _once(self, name: str, make: Callable[..., Any]) -> Callable[..., Any]:
        def made(learner: Any, *plan: Any, seed: int, **more: Any) -> Any:
            key = (name, learner.settings, learner.tuned, learner.train_mode, seed)
            if key in self._known:
                self.spared += self._known[key][1]
            else:
                began = Clock()
                self._known[key] = make(learner, *plan, seed=seed, **more), began.taken
            # A copy: what is done to one run's weights is not done to the next one's.
            return copy.deepcopy(self._known[key][0])

        return made
