"""Evidence on short length scales, from systems of all of a member's observations.

Large systems are solved only where the grid point may still become the most likely one. What is left out is worse for
certain: three inequalities bound the likelihood from above by what is known already.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from metricopt.gaussian_process.conditioning import NUMBERS_AT_ONCE, TINY_VARIANCE, cholesky, log_determinant, whitened
from metricopt.gaussian_process.features import line_rbf
from metricopt.gaussian_process.fitting import Centred, Evidence, profiled, quadratic
from metricopt.gaussian_process.systems import SMALL, solved

# A grid point that is worse by less than rounding errors is not left out.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Contest:
    """Grid points of a population that compete.

    Attributes:
        points: Where there are observations, numbers between 0 and 1, (batch, n).
        data: The observations.
        ratios: Candidates for noise variance / signal variance, rising, (ratios,).
        noise_floor: Known standard deviation of one observation.

    Example:
        >>> points, y = torch.rand(2, 2, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        >>> data = Centred.of(y, torch.isfinite(y))
        >>> lengths, ratios = torch.tensor([0.02, 0.1]), torch.tensor([0.01, 0.1, 1.0])
        >>> Contest(points, data, ratios.double(), 0.0).joined(lengths.double(), []).own.shape
        torch.Size([2, 2, 3])
    """

    points: Tensor
    data: Centred
    ratios: Tensor
    noise_floor: float

    def joined(self, lengths: Tensor, longer: list[Evidence]) -> Evidence:
        """Evidence on these lengths, from short to long, and on all longer ones, for which it is known."""
        if not len(lengths):
            return Evidence.joined(longer)
        if not longer or self.points.shape[1] <= SMALL:
            return Evidence.joined([self._everywhere(lengths), *longer])
        return Evidence.joined([*self._where_it_matters(lengths, longer), *longer])

    def _everywhere(self, lengths: Tensor) -> Evidence:
        batch, n = self.points.shape
        # The systems last, as they are eliminated.
        points, there = self.points.mT.contiguous(), self.data.right[..., 1].mT
        apart = (points[:, None] - points).square_().unsqueeze(2)  # (n, n, 1, batch)
        correlation = (apart * (-0.5 / lengths.square())[:, None]).clamp_min_(-50).exp_()  # (n, n, lengths, batch)
        if not self.data.mask.all():
            correlation *= (there[:, None] * there).unsqueeze(2)
        right = self.data.right.repeat(len(lengths), 1, 1)
        products, logarithm = solved(correlation.flatten(2).permute(2, 0, 1), right, self.ratios)
        shape = (len(lengths), batch, len(self.ratios))
        own, shared, ones = products.reshape(3, *shape).transpose(1, 2)
        # Each missing observation has left its ratio on the diagonal.
        missing = (n - self.data.count[:, None, None]) * self.ratios.log()
        return Evidence(own, shared, ones, logarithm.reshape(shape).transpose(0, 1) - missing)

    def _where_it_matters(self, lengths: Tensor, longer: list[Evidence]) -> list[Evidence]:
        best = profiled(Evidence.joined(longer), self.data.count, self.ratios, self.noise_floor)[0].amin((1, 2))
        # |C| only grows as the length falls: a short kernel is the product of a longer one and another (Oppenheim).
        rivals, parts = _Rivals(best, longer[0].log_determinant.squeeze(1).clone()), []
        for length in lengths.flip(0):
            parts.insert(0, self._one_length(self._correlation(length), rivals))
        return parts

    def _one_length(self, correlation: Tensor, rivals: "_Rivals") -> Evidence:
        """Evidence that is infinitely bad where it is left out; the rivals learn from it."""
        found = correlation.new_zeros(4, len(correlation), len(self.ratios))
        found[3] = torch.inf
        least = self._least_misfit(correlation)
        smallest = torch.arange(len(self.ratios), device=least.device) == 0
        # The smallest ratio last: its determinant is bounded by that of the next.
        for now in (~smallest, smallest):
            may_win = (least + rivals.log_determinant < rivals.deviance[:, None] + _ROUNDING) & now
            for some, column in _parts(may_win.nonzero(), NUMBERS_AT_ONCE // correlation.shape[-1] ** 2):
                found[:, some, column] = cells = self._cells(correlation.index_select(0, some), some, column)
                evidence, ratios = Evidence(*cells[..., None, None]), self.ratios[column, None, None]
                deviance, _, _ = profiled(evidence, self.data.count[some], ratios, self.noise_floor)
                rivals.learn(some, column, deviance.flatten(), cells[3])
            rivals.extrapolate(self.data.count, self.ratios.tolist())
        return Evidence(*found.unsqueeze(2))

    def _cells(self, noisy: Tensor, members: Tensor, columns: Tensor) -> Tensor:
        """All four parts of the evidence of some members at a ratio each, (4, members)."""
        ratios = self.ratios[columns]
        noisy.diagonal(dim1=-2, dim2=-1).add_(ratios[:, None])
        factor = cholesky(noisy)
        # Each missing observation has left its ratio on the diagonal.
        missing = noisy.shape[-1] - self.data.count[members]
        products = quadratic(whitened(factor, self.data.right[members]))
        return torch.stack([*products, log_determinant(factor) - missing * ratios.log()])

    def _least_misfit(self, correlation: Tensor) -> Tensor:
        """The deviance without log |C| at every ratio, or less, (batch, ratios)."""
        y = self.data.right[..., :1]
        square = (y * y).sum(1)  # (batch, 1)
        # Cauchy and Schwarz: y C^-1 y >= (y y)^2 / (y C y), whatever constant is taken off, for y has none left.
        own = square**2 / ((y * (correlation @ y)).sum(1) + self.ratios * square).clamp_min(TINY_VARIANCE)
        own, none = own.unsqueeze(1), own.new_zeros(1)
        least = Evidence(own, none, none + 1, none)
        return profiled(least, self.data.count, self.ratios, self.noise_floor)[0].squeeze(1)

    def _correlation(self, length: Tensor) -> Tensor:
        correlation = line_rbf(self.points, self.points, length)
        if not self.data.mask.all():
            ones = self.data.right[..., 1]
            correlation *= ones.unsqueeze(-1) * ones.unsqueeze(-2)
        return correlation


def _parts(indices: Tensor, at_once: int) -> list[tuple[Tensor, Tensor]]:
    """Rows and columns of so many entries (entries, 2) at once; none if there is none."""
    return [(part[:, 0], part[:, 1]) for part in indices.split(max(1, at_once)) if len(part)]


@dataclass(frozen=True)
class _Rivals:
    """What a grid point has to beat: changed in place as more is known."""

    deviance: Tensor  # the lowest so far, (batch,)
    log_determinant: Tensor  # of C, or less, for all lengths to come, (batch, ratios)

    def learn(self, members: Tensor, columns: Tensor, deviance: Tensor, log_determinant: Tensor) -> None:
        """From some grid points that were looked at, (points,) each."""
        self.deviance.scatter_reduce_(0, members, deviance, "amin")
        self.log_determinant[members, columns] = log_determinant

    def extrapolate(self, count: Tensor, ratios: list[float]) -> None:
        """To the smallest ratio from the next."""
        if len(ratios) > 2:
            # log |C| is convex in log ratio, and at the largest ratio at most n log(1 + ratio) (Hadamard's inequality).
            known = self.log_determinant[:, 1]
            share = math.log(ratios[1] / ratios[0]) / math.log(ratios[-1] / ratios[1])
            bound = known - share * (math.log1p(ratios[-1]) * count - known)
            self.log_determinant[:, 0] = self.log_determinant[:, 0].maximum(bound)
