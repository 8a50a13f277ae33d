"""Frozen, checked records that pass between the stages of the method."""

from dataclasses import dataclass

import torch
from torch import Tensor

from metricopt.core.errors import ObservationError


@dataclass(frozen=True)
class Trajectory:
    """Finetuning paths of a population of tasks with the metric observed at a few of their steps.

    Attributes:
        phi: Adapter vectors along each path, (tasks, steps, dim).
        loss: Mini-batch loss at each of them, (tasks, steps).
        observed_steps: Steps at which the metric was queried, (tasks, observations).
        costs: What it answered as a cost in [0, 1], NaN where the query failed, (tasks, observations).
        noise_std: Standard deviation of one observation due to the finite metric data (bootstrap).

    Example:
        >>> phi = torch.arange(4.0).reshape(1, 4, 1)
        >>> steps, costs = torch.tensor([[0, 3]]), torch.tensor([[0.5, 0.2]])
        >>> path = Trajectory(phi, torch.zeros(1, 4), steps, costs, noise_std=0.01)
        >>> path.observed_phi.flatten().tolist()
        [0.0, 3.0]
    """

    phi: Tensor
    loss: Tensor
    observed_steps: Tensor
    costs: Tensor
    noise_std: float

    def __post_init__(self) -> None:
        tasks, steps, _ = self.phi.shape
        observations = self.observed_steps.shape[1]
        if self.loss.shape != (tasks, steps) or not self.costs.shape == self.observed_steps.shape == (
            tasks,
            observations,
        ):
            raise ValueError(
                f"phi {tuple(self.phi.shape)}, loss {tuple(self.loss.shape)}, observed_steps "
                f"{tuple(self.observed_steps.shape)} and costs {tuple(self.costs.shape)} do not describe the same paths"
            )
        if observations < 2:
            raise ObservationError(
                f"{observations} metric observation in {steps} steps; interpolation needs at least 2: "
                f"set observations to 2 or more"
            )

    @property
    def observed_phi(self) -> Tensor:
        """Adapter vectors at the observed steps, (tasks, observations, dim)."""
        return at_steps(self.phi, self.observed_steps)

    def rows(self, keep: Tensor) -> "Trajectory":
        """The same record for some of the tasks only."""
        return Trajectory(self.phi[keep], self.loss[keep], self.observed_steps[keep], self.costs[keep], self.noise_std)


def at_steps(phi: Tensor, steps: Tensor) -> Tensor:
    """Adapter vectors (tasks, observations, dim) of paths (tasks, steps, dim) at some of their steps.

    Example:
        >>> at_steps(torch.arange(6.0).reshape(2, 3, 1), torch.tensor([[0, 2], [1, 1]])).flatten().tolist()
        [0.0, 2.0, 4.0, 4.0]
    """
    return torch.gather(phi, 1, steps.unsqueeze(-1).expand(-1, -1, phi.shape[-1]))


@dataclass(frozen=True)
class LabelledTrajectory:
    """Finetuning paths with an interpolated cost and its standard deviation at every step.

    Attributes:
        phi: Adapter vectors along each path, (tasks, steps, dim).
        mean: Interpolated cost M_t, (tasks, steps).
        std: Its standard deviation s_t, positive, (tasks, steps).

    Example:
        >>> labelled = LabelledTrajectory(torch.zeros(3, 4, 2), torch.zeros(3, 4), torch.full((3, 4), 0.1))
        >>> labelled.rows(torch.tensor([0, 2])).mean.shape
        torch.Size([2, 4])
    """

    phi: Tensor
    mean: Tensor
    std: Tensor

    def __post_init__(self) -> None:
        if self.mean.shape != self.phi.shape[:2] or self.std.shape != self.mean.shape:
            raise ValueError(
                f"phi {tuple(self.phi.shape)}, mean {tuple(self.mean.shape)} and std {tuple(self.std.shape)} "
                f"do not describe the same paths"
            )
        if not bool((self.std > 0).all()):
            raise ValueError("the standard deviation of an interpolated metric must be positive at every step")

    def rows(self, keep: Tensor) -> "LabelledTrajectory":
        """The same record for some of the tasks only."""
        return LabelledTrajectory(self.phi[keep], self.mean[keep], self.std[keep])


@dataclass(frozen=True)
class Outcome:
    """What a search returned and what it would have returned with fewer queries.

    Attributes:
        phi: The vector chosen in the end, (dim,).
        incumbents: Pairs (queries used, vector it would have returned then), in increasing order of queries.
        plain: The same for the best of those vectors that only starts and shifts of outputs had led to, if it knows.

    Example:
        >>> outcome = Outcome(torch.ones(2), ((1, torch.zeros(2)), (10, torch.ones(2))))
        >>> outcome.at(5).tolist()
        [0.0, 0.0]
    """

    phi: Tensor
    incumbents: tuple[tuple[int, Tensor], ...]
    plain: tuple[tuple[int, Tensor], ...] = ()

    def at(self, queries: int) -> Tensor:
        """The vector that would have been returned after at most `queries` queries."""
        return _last(self.incumbents, queries)

    def rungs(self, queries: int | None = None) -> Tensor:
        """What is to be judged, after at most `queries` queries or in the end, plainest first: (1 or 2, dim).

        Example:
            >>> zero, shift, end = torch.zeros(2), torch.tensor([0.0, 1.0]), torch.ones(2)
            >>> Outcome(end, ((1, zero), (9, end)), plain=((1, zero), (5, shift))).rungs().tolist()
            [[0.0, 1.0], [1.0, 1.0]]
        """
        chosen = self.phi if queries is None else self.at(queries)
        plain = _last(self.plain, 2**31 if queries is None else queries) if self.plain else chosen
        return chosen[None] if torch.equal(plain, chosen) or not bool(plain.any()) else torch.stack([plain, chosen])


def _last(history: tuple[tuple[int, Tensor], ...], queries: int) -> Tensor:
    known = [phi for used, phi in history if used <= queries]
    if not known:
        raise ValueError(f"nothing was known after {queries} queries; the first incumbent needs {history[0][0]}")
    return known[-1]
