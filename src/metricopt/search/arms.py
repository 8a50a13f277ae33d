"""Ways in which the walk can spend its next queries, and the simplest of them: shift one output."""

from typing import Protocol

import torch
from torch import Tensor

from metricopt.search.archive import Archive

_SMALLEST_SHIFT = 0.03  # logits


class Arm(Protocol):
    """One way to choose the next few queries.

    Example:
        >>> class AtRandom:
        ...     spent = False
        ...     def pull(self, archive: Archive) -> None:
        ...         archive.observe(archive.best + torch.randn(3, archive.oracle.dim), stage="random")
        ...     def level(self, archive: Archive) -> float:
        ...         return archive.best_cost
        ...     def blocked(self, archive: Archive) -> bool:
        ...         return False
        >>> arm: Arm = AtRandom()
    """

    @property
    def spent(self) -> bool:
        """Whether further queries would tell nothing."""
        ...

    def pull(self, archive: Archive) -> None:
        """Make a few queries."""
        ...

    def level(self, archive: Archive) -> float:
        """The cost that this arm is to lower."""
        ...

    def blocked(self, archive: Archive) -> bool:
        """Whether what it asks next depends on answers that workers are still to give."""
        ...


class ShiftArm:
    """One output shift after the other up and down, by steps that halve once none gained: post-shift, as one arm.

    It goes on from the best plain point, so that what shifts alone can do is known whatever the other arm finds. What
    changes nothing the metric could see, or was queried before, is not queried.

    Example:
        >>> from metricopt.task.oracle import Oracle
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> archive = Archive(Oracle(QuadraticTask(dim=4)), 3)
        >>> archive.observe(torch.zeros(1, 4), stage="start", plain=True)
        >>> ShiftArm(torch.tensor([3]), rows=10).pull(archive)
        >>> archive.points[1:].tolist()
        [[0.0, 0.0, 0.0, -1.0], [0.0, 0.0, 0.0, 1.0]]
    """

    def __init__(
        self, coordinates: Tensor, *, rows: int, first: float = 1.0, smallest: float = _SMALLEST_SHIFT
    ) -> None:
        self._coordinates, self._rows, self._smallest = coordinates, rows, smallest
        self._next, self._size, self._improved, self._noticed = 0, first, False, False
        self._due, self._began = False, (0.0, 0)  # whether a round is to be ended, and where it began

    @property
    def spent(self) -> bool:
        """Whether the steps have become too small to change labels, or the metric does not look at shifts."""
        return self._size < self._smallest

    @property
    def blind(self) -> bool:
        """Whether the metric does not look at shifts."""
        return self._size == 0

    def pull(self, archive: Archive) -> None:
        """Try the next output's shift a step up and a step down."""
        if self._due:
            self._end_round(archive)
        before, made = archive.plain_cost, len(archive.costs)
        if self._next == 0:
            self._began = before, made
        points = archive.plain.repeat(2, 1)
        points[:, self._coordinates[self._next]] += self._size * torch.tensor([-1.0, 1.0])
        points = points[self._visible(archive, points)]
        archive.observe(points[~archive.asked(points)], stage="shift", plain=True)
        self._improved |= archive.plain_cost < before
        self._noticed |= bool((archive.costs[made:] != before).any())
        self._next = (self._next + 1) % len(self._coordinates)
        self._due = self._next == 0
        if self._due and not archive.pending(plain=True):
            self._end_round(archive)

    def _end_round(self, archive: Archive) -> None:
        """A round of all outputs is over once workers have answered; meanwhile other arms were pulled."""
        if archive.oracle.crew is not None:
            archive.wait(plain=True)
            before, made = self._began
            self._improved |= archive.plain_cost < before
            self._noticed |= bool((archive.costs[made:] != before).any())
        self._due = False
        self._resize()

    def level(self, archive: Archive) -> float:
        """The cost of the best plain point."""
        return archive.plain_cost

    def blocked(self, archive: Archive) -> bool:
        """Whether a round is over and workers are still at it."""
        return self._due and archive.pending(plain=True)

    def _visible(self, archive: Archive, points: Tensor) -> Tensor:
        """Which points (n, dim) look different from the best plain one, (n,)."""
        probe = archive.oracle.probe
        outputs = probe.shown(torch.cat([archive.plain[None], points]), rows=self._rows)
        seen = torch.cat([view.features(outputs) for view in probe.views], 1)
        return (seen[1:] != seen[0]).any(1)

    def _resize(self) -> None:
        """After a round of all outputs: smaller steps if none gained, an end if the metric has not noticed any yet."""
        if not self._noticed:
            self._size = 0.0
        elif not self._improved:
            self._size /= 2
        self._improved = False
