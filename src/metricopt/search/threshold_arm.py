"""The shift of a single output, which is a threshold: found roughly by steps, then on a smooth curve of answers."""

import torch
from torch import Tensor

from metricopt.search.archive import Archive
from metricopt.search.arms import ShiftArm
from metricopt.search.view_gp import view_gp

# Steps of a quarter of the unit, a logit or the spread of the outputs if that is less; smaller ones would follow luck.
_STEP = 0.25
_REACH = 4  # such steps to either side
_LEAST = 5  # answers a curve is drawn through
_FINE = 0.01  # of the unit


class ThresholdArm:
    """Post-shift for one output, choosing the lowest point of a smooth curve instead of the lowest answer.

    Of many thresholds that are about as good as each other the one with the lowest answer is the luckiest: on Adult's
    F1, G-mean and Jaccard index the curve comes .0005 nearer to the best threshold for other rows
    (docs/recipe-notes.md).

    Attributes:
        spent: Whether the threshold is chosen, or the metric does not look at it.

    Example:
        >>> from metricopt.task.oracle import Oracle
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task = QuadraticTask(dim=3, shifts=1)
        >>> oracle = Oracle(task)
        >>> archive, arm = Archive(oracle, 40), ThresholdArm(oracle.probe.shift_coordinates, rows=10)
        >>> archive.observe(torch.zeros(1, 3), stage="start", plain=True)
        >>> while not arm.spent:
        ...     arm.pull(archive)
        >>> bool((archive.plain - task.optimum)[-1].abs() < 0.05)
        True
    """

    def __init__(self, coordinate: Tensor, *, rows: int) -> None:
        self._coordinate, self._axis, self._rows = coordinate, int(coordinate), rows
        self._steps: ShiftArm | None = None
        self._unit = 1.0
        self._centre: Tensor | None = None  # of the curve
        self._asked = False  # about the lowest point of the curve
        self.spent = False

    def pull(self, archive: Archive) -> None:
        """Step up and down or, once steps are small, ask around the best one and choose."""
        if self._steps is None:
            spread = float(archive.oracle.probe.shown(archive.plain[None], rows=self._rows).std())
            self._unit = min(1.0, spread) if spread > 0 else 1.0
            self._steps = ShiftArm(self._coordinate, rows=self._rows, first=self._unit, smallest=_STEP * self._unit)
        if not self._steps.spent:
            self._steps.pull(archive)
            self.spent = self._steps.blind
            return
        if self._centre is None:
            self._centre = archive.plain.clone()
            offsets = _STEP * self._unit * torch.arange(-_REACH, _REACH + 1)
            known = self._along(archive, self._centre)[0]
            fresh = ((offsets[:, None] - known).abs() > _STEP * self._unit / 2).all(1)
            self._ask(archive, self._centre, offsets[fresh])
        if not self._asked and not self.blocked(archive):
            self._asked = True
            self.spent = not self._ask_lowest(archive, self._centre)
        if not self.spent and not self.blocked(archive):
            self.spent = True
            archive.settle()

    def blocked(self, archive: Archive) -> bool:
        """Whether workers are still at what it has asked."""
        return archive.pending(plain=True)

    def _ask_lowest(self, archive: Archive, centre: Tensor) -> bool:
        """Ask about the lowest point of the curve, if there are enough answers for one; whether it was asked."""
        at, costs = self._along(archive, centre)
        if len(costs) < _LEAST or not archive.left:
            return False
        curve = view_gp(at[:, None], costs)
        fine = torch.arange(float(at.min()), float(at.max()), _FINE * self._unit)
        self._ask(archive, centre, fine[curve(fine[:, None]).argmin()][None])
        return True

    def level(self, archive: Archive) -> float:
        """The cost of the best plain point."""
        return archive.plain_cost

    def _ask(self, archive: Archive, centre: Tensor, offsets: Tensor) -> None:
        points = centre.repeat(len(offsets), 1)
        points[:, self._axis] += offsets
        archive.observe(points, stage="shift", plain=True)

    def _along(self, archive: Archive, centre: Tensor) -> tuple[Tensor, Tensor]:
        """Offsets from the centre of answered points near it that differ in the threshold alone, and their costs."""
        points, costs = archive.known()
        away = points - centre
        offsets = away[:, self._axis].clone()
        away[:, self._axis] = 0
        near = ~away.any(1) & (offsets.abs() <= (_REACH + 0.5) * _STEP * self._unit)
        # Each once: a start may have been asked about before, and equal answers would look like the absence of noise.
        once = dict(zip(offsets[near].tolist(), costs[near].tolist(), strict=True))
        return torch.tensor(list(once)), torch.tensor(list(once.values()))
