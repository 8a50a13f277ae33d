"""The two ways the walk can spend its next queries: shift an output, or follow the value function."""

from typing import Protocol

import torch
from torch import Tensor

from metricopt.search.archive import Archive
from metricopt.search.geometry import Geometry, euclidean, output_geometry
from metricopt.search.proposals import sparse_steps, steps_in_span, within
from metricopt.search.recipe import Recipe
from metricopt.task import Task
from metricopt.value.diagnostics import rank_correlation
from metricopt.value.local_gp import LocalGP, local_gp

_SMALLEST_SHIFT = 0.03  # logits


class Arm(Protocol):
    """One way to choose the next few queries.

    Example:
        >>> class AtRandom:
        ...     spent = False
        ...     def pull(self, archive: Archive) -> None:
        ...         archive.observe(archive.best + torch.randn(3, archive.task.dim), stage="random")
        >>> arm: Arm = AtRandom()
    """

    @property
    def spent(self) -> bool:
        """Whether further queries would tell nothing."""
        ...

    def pull(self, archive: Archive) -> None:
        """Make a few queries from the archive's best point on."""
        ...


class ShiftArm:
    """One output shift after the other up and down, by steps that halve once none gained: post-shift, as one arm.

    Example:
        >>> from metricopt.tasks.synthetic import QuadraticTask
        >>> archive = Archive(QuadraticTask(dim=4), 3)
        >>> archive.observe(torch.zeros(1, 4), stage="start")
        >>> ShiftArm(torch.tensor([3])).pull(archive)
        >>> archive.points[1:].tolist()
        [[0.0, 0.0, 0.0, -1.0], [0.0, 0.0, 0.0, 1.0]]
    """

    def __init__(self, coordinates: Tensor) -> None:
        self._coordinates, self._next, self._size, self._improved = coordinates, 0, 1.0, False

    @property
    def spent(self) -> bool:
        """Whether the steps have become too small to change labels."""
        return self._size < _SMALLEST_SHIFT

    def pull(self, archive: Archive) -> None:
        """Try the next output's shift a step up and a step down."""
        before = archive.best_cost
        points = archive.best.repeat(2, 1)
        points[:, self._coordinates[self._next]] += self._size * torch.tensor([-1.0, 1.0])
        archive.observe(points, stage="shift")
        self._improved |= archive.best_cost < before
        self._next = (self._next + 1) % len(self._coordinates)
        if self._next == 0:
            self._size = self._size if self._improved else self._size / 2
            self._improved = False


class ValueArm:
    """A Gaussian process over phi in a trust region around the best point, followed by Thompson sampling.

    Attributes:
        value: The last value function, over whitened steps from `centre`; None before the first fit.
        spent: Never: the region starts over once it has become too small.
        forecasts: Pairs (predicted cost, true cost) of what it queried once it had a value function.

    Example:
        >>> from metricopt.tasks.synthetic import QuadraticTask
        >>> task, draw = QuadraticTask(dim=3), torch.Generator().manual_seed(0)
        >>> archive = Archive(task, 50)
        >>> archive.observe(torch.zeros(1, 3), stage="start")
        >>> arm = ValueArm(task, Recipe(), landmarks=torch.zeros(1, 3), generator=draw)
        >>> for _ in range(8):
        ...     arm.pull(archive)
        >>> bool(archive.best_cost < 0.1), arm.held_out_correlation(archive) > 0.8
        (True, True)
    """

    spent = False

    def __init__(self, task: Task, recipe: Recipe, *, landmarks: Tensor, generator: torch.Generator) -> None:
        self._task, self._recipe, self._generator = task, recipe, generator
        self._landmarks = landmarks
        self._radius, self._won, self._lost, self._measured = recipe.radius, 0, 0, -(10**9)
        self._geometry = euclidean(task.dim)
        self._guide: tuple[Tensor, Tensor] | None = None
        self.value: LocalGP | None = None
        self.forecasts: list[tuple[float, float]] = []

    def pull(self, archive: Archive) -> None:
        """Fit the value function near the best point and query what its samples like best."""
        self._measure(archive)
        steps = self._candidates(archive.best)
        chosen = self._choose(archive, steps)
        before, start = archive.best_cost, len(archive.costs)
        archive.observe(archive.best + self._geometry.plain(chosen), stage="value")
        if self.value is not None:
            made = archive.costs[start:]
            asked = chosen[: len(made)]
            self._note(self.value(asked).tolist(), made.tolist(), self.value.std(asked).tolist())
        self._adjust(improved=archive.best_cost < before - 1e-4 * abs(before))

    def _note(self, predicted: list[float], true: list[float], std: list[float]) -> None:
        self.forecasts.extend(zip(predicted, true, strict=True))
        first = len(self._task.ledger.queries) - len(true)
        self._task.ledger.note("forecast", {"first": first, "predicted": predicted, "true": true, "std": std})

    def held_out_correlation(self, archive: Archive, *, folds: int = 5) -> float:
        """Rank correlation of value functions fitted to four fifths of the queries with the other fifth's answers."""
        points, costs = archive.known()
        steps = self._geometry.whitened(points - archive.best)
        if len(points) < 4 * folds:
            return 0.0
        fold = torch.randperm(len(points), generator=self._generator) % folds
        predicted = torch.zeros_like(costs)
        for k in range(folds):
            kept = fold != k
            scale = float(steps[kept].norm(dim=1).median().clamp_min(1e-3))
            predicted[~kept] = local_gp(steps[kept], costs[kept], scale=scale)(steps[~kept])
        return rank_correlation(predicted, costs)

    def _measure(self, archive: Archive, *, every: int = 40) -> None:
        if self._recipe.whiten and len(archive.costs) - self._measured > every:
            self._geometry = output_geometry(self._task, archive.best, rows=self._recipe.rows)
            self._measured = len(archive.costs)

    def _candidates(self, best: Tensor) -> Tensor:
        count, geometry, generator = self._recipe.candidates, self._geometry, self._generator
        families = [sparse_steps(count // 2, self._task.dim, generator)]
        for vectors, share in self._subspaces(best, geometry):
            if len(vectors):
                families.append(steps_in_span(vectors, count // share, generator))
        return within(self._radius, torch.cat(families), generator)

    def _subspaces(self, best: Tensor, geometry: Geometry) -> list[tuple[Tensor, int]]:
        none = torch.zeros(0, self._task.dim)
        gradients = geometry.gradient(self._gradients(best)) if self._recipe.guided else none
        shifts = geometry.to_whitened[:, self._task.shift_coordinates].T if self._recipe.shifts else none
        ways = geometry.whitened(self._landmarks - best)
        return [(gradients, 4), (shifts, 6), (ways[ways.norm(dim=1) > 1e-4], 8)]

    def _gradients(self, best: Tensor) -> Tensor:
        """Group-wise loss gradients at the best point, computed anew only when it has moved."""
        if self._guide is None or not torch.equal(self._guide[0], best):
            self._guide = (best.clone(), self._task.directions(best))
        return self._guide[1]

    def _choose(self, archive: Archive, steps: Tensor) -> Tensor:
        points, costs = archive.known()
        seen = self._geometry.whitened(points - archive.best)
        near = seen.norm(dim=1).argsort()[: self._recipe.neighbours]
        if len(near) < 6:
            return steps[torch.randperm(len(steps), generator=self._generator)[: self._recipe.batch]]
        self.value = local_gp(seen[near], costs[near], scale=2 * max(self._radius, 0.05))
        beliefs = self.value.samples(steps, self._recipe.batch, self._generator)  # (batch, candidates)
        chosen: list[int] = []
        for belief in beliefs:
            belief[chosen] = torch.inf
            chosen.append(int(belief.argmin()))
        return steps[chosen]

    def _adjust(self, *, improved: bool) -> None:
        self._won, self._lost = (self._won + 1, 0) if improved else (0, self._lost + 1)
        if self._won == 2:
            self._radius, self._won = min(1.6 * self._radius, 2.0), 0
        if self._lost == 3:
            self._radius, self._lost = self._radius / 1.6, 0
        if self._radius < self._recipe.smallest:
            self._radius = self._recipe.radius
