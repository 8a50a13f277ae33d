"""Budgets share the finetunings of `optimize`, which do not depend on the budget, and each is told their whole time.

A run of its own for each budget would make the very same networks again: four fifths of the benchmark's hours.
"""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self, final

from metricopt.crossfit.finetuner import Anew, Finetuner
from metricopt.crossfit.fit import Fitted, Plan
from metricopt.crossfit.learner import Learner
from metricopt.crossfit.training import Tick
from metricopt_lab.rivals.weights.finetunings import Clock


@final
class SharedFits(Finetuner):
    """Plans and finetunings of one problem, made once for each effort.

    Attributes:
        spared: Time of what was not made again, since the last run began.
    """

    def __init__(self) -> None:
        self.spared = Clock(0.0, 0.0)
        self._known: dict[tuple[Any, ...], tuple[Any, Clock]] = {}

    def for_a_run(self) -> Self:
        """Itself, with nothing spared yet."""
        self.spared = Clock(0.0, 0.0)
        return self

    def plan(self, learner: Learner, *, seed: int, tick: Tick) -> Plan:
        """How a learner is finetuned."""
        return self._once("plan", learner, seed, lambda: Anew().plan(learner, seed=seed, tick=tick))

    def fit(self, learner: Learner, plan: Plan, *, seed: int, tick: Tick) -> Fitted:
        """The finetunings of a plan."""
        return self._once("fit", learner, seed, lambda: Anew().fit(learner, plan, seed=seed, tick=tick))

    def _once(self, name: str, learner: Learner, seed: int, make: Callable[[], Any]) -> Any:
        # What is asked of the networks afterwards does not change them.
        settings = replace(learner.settings, alphas=(), tuned=0)
        key = (name, settings, learner.tuned, learner.train_mode, seed)
        if key in self._known:
            self.spared += self._known[key][1]
        else:
            began = Clock()
            self._known[key] = make(), began.taken
        # A copy: what is done to one run's weights is not done to the next one's.
        return copy.deepcopy(self._known[key][0])
