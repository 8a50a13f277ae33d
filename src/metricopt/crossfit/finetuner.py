"""Who plans and makes the finetunings of a learner: anew, or as another run of the same problem made them."""

from abc import ABC, abstractmethod
from typing import final

from metricopt.crossfit.fit import Fitted, Plan, fit, plan_of
from metricopt.crossfit.learner import Learner
from metricopt.crossfit.training import Tick


class Finetuner(ABC):
    """Plans and makes finetunings; those of a learner depend on it and on the seed, never on the number of queries."""

    @abstractmethod
    def plan(self, learner: Learner, *, seed: int, tick: Tick) -> Plan:
        """How a learner is finetuned."""

    @abstractmethod
    def fit(self, learner: Learner, plan: Plan, *, seed: int, tick: Tick) -> Fitted:
        """The finetunings of a plan, in tensors that the caller may change."""


@final
class Anew(Finetuner):
    """Makes them each time they are asked for."""

    def plan(self, learner: Learner, *, seed: int, tick: Tick) -> Plan:
        """How a learner is finetuned, by a few trials."""
        return plan_of(learner, seed=seed, tick=tick)

    def fit(self, learner: Learner, plan: Plan, *, seed: int, tick: Tick) -> Fitted:
        """The finetunings of a plan."""
        return fit(learner, plan, seed=seed, tick=tick)
