"""Which candidates to query next, given what a value function believes of them together."""

import math

import torch
from torch import Tensor

_FAR = -1e6  # deviations below which the tail's leading term is all that double precision knows of it


def by_samples(beliefs: Tensor) -> list[int]:
    """The lowest candidate of each sample (samples, n), no candidate twice: Thompson sampling.

    Example:
        >>> by_samples(torch.tensor([[0.3, 0.1, 0.2], [0.3, 0.1, 0.2]]))
        [1, 2]
    """
    chosen: list[int] = []
    for belief in beliefs[: beliefs.shape[1]].clone():
        belief[chosen] = torch.inf
        chosen.append(int(belief.argmin()))
    return chosen


def by_improvement(mean: Tensor, covariance: Tensor, *, lowest: float, noise: float, count: int) -> list[int]:
    """As many candidates as asked for, each with the highest expected improvement once those before are answered.

    What they will answer is taken to be the mean, so that only the doubt about their neighbours becomes less.

    Args:
        mean: Expected costs, (n,).
        covariance: Of these, (n, n).
        lowest: The lowest expected cost of all points answered.
        noise: Variance of an answer.
        count: How many to choose.

    Example:
        >>> doubt = torch.diag(torch.tensor([0.1, 1.0, 0.1]))
        >>> by_improvement(torch.tensor([0.5, 0.5, 0.4]), doubt, lowest=0.4, noise=0.0, count=2)
        [1, 2]
    """
    mean, covariance, chosen = mean.double(), covariance.double().clone(), []
    for _ in range(min(count, len(mean))):
        std = covariance.diagonal().clamp_min(1e-18).sqrt()
        score = log_improvement((lowest - mean) / std) + std.log()
        score[chosen] = -torch.inf
        pick = int(score.argmax())
        chosen.append(pick)
        column = covariance[:, pick].clone()
        covariance -= torch.outer(column, column) / (column[pick] + noise).clamp_min(1e-18)
    return chosen


def log_improvement(z: Tensor) -> Tensor:
    """log(z Phi(z) + phi(z)): of the expected improvement, in deviations, where the mean is z deviations below.

    In the far tail the improvement itself is 0 in any precision, and its logarithm still tells candidates apart (Ament
    et al. 2023).

    Example:
        >>> log_improvement(torch.tensor([0.0, -100.0], dtype=torch.float64))
        tensor([-9.1894e-01, -5.0101e+03], dtype=torch.float64)
    """
    near = z.clamp_min(-1)
    density = torch.exp(-near.square() / 2) / math.sqrt(2 * math.pi)
    tail = z.clamp(_FAR, -1)
    rest = torch.log1p(tail * torch.special.erfcx(-tail / math.sqrt(2)) * math.sqrt(math.pi / 2))
    rest = torch.where(z < _FAR, -2 * z.clamp_max(-1).abs().log(), rest)
    below = -z.clamp_max(-1).square() / 2 - math.log(2 * math.pi) / 2 + rest
    return torch.where(z > -1, (near * torch.special.ndtr(near) + density).log(), below)
