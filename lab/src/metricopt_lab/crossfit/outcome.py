"""What a method of the stick hands back: a network of the original's class, and what it cost."""

from copy import deepcopy
from dataclasses import dataclass

from torch import Tensor, nn

from metricopt_lab.crossfit.population import State
from metricopt_lab.problems.zoo import UserProblem as Problem


@dataclass(frozen=True, eq=False)
class Outcome:
    """A proposal.

    Attributes:
        method: Its name in tables.
        state: Weights and buffers of the proposed network.
        bias: What is added to its outputs.
        calls: Calls of the metric.
        seconds: Seconds of the wall.
        cpu: Processor seconds.
        details: Anything worth a column.
    """

    method: str
    state: State
    bias: Tensor
    calls: int
    seconds: float
    cpu: float
    details: dict[str, float | str]

    def test_cost(self, problem: Problem) -> float:
        """Cost on the test rows."""
        return problem.test_cost(loaded(problem.net, self.state), self.bias)


def loaded(net: nn.Module, state: State) -> nn.Module:
    """A copy of `net` with another state."""
    copy = deepcopy(net)
    copy.load_state_dict(state)
    return copy.eval()
