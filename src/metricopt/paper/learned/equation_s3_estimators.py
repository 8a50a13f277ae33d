"""Eq. S3: the gradient of an objective smoothed over its weights, by two unbiased estimators and by both together.

The objective is E L(w + e) with e from N(0, std^2 I). Both estimators are of antithetic pairs w + e, w - e, one row a
pair; Metz et al. (2019) combine them coordinate by coordinate with the inverse of their variances.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

Estimator = Literal["both", "es", "reparametrised"]

_SMALLEST = 1e-8  # added to variances, as in the code of Metz et al.


def noisy_pairs(weights: Tensor, noise: Tensor) -> Tensor:
    """All w + e, then all w - e, (2 pairs, size), of weights (size,) and noise (pairs, size).

    Example:
        >>> noisy_pairs(torch.tensor([1.0]), torch.tensor([[0.5], [2.0]])).flatten().tolist()
        [1.5, 3.0, 0.5, -1.0]
    """
    return torch.cat([weights + noise, weights - noise])


def evolution_gradients(noise: Tensor, objectives: Tensor, *, std: float) -> Tensor:
    """Each pair's estimate by evolution strategies, e (L(w + e) - L(w - e)) / (2 std^2), (pairs, size).

    Args:
        noise: e, (pairs, size).
        objectives: L at `noisy_pairs`, (2 pairs,).
        std: Standard deviation of the noise.

    Example:
        >>> evolution_gradients(torch.tensor([[0.5]]), torch.tensor([1.5, 0.5]), std=0.5)
        tensor([[1.]])
    """
    ahead, behind = objectives.chunk(2)
    return noise * (ahead - behind)[:, None] / (2 * std**2)


def reparametrised_gradients(gradients: Tensor) -> Tensor:
    """Each pair's estimate through the objective itself, the mean of its two gradients, (pairs, size).

    Args:
        gradients: Of L at `noisy_pairs`, (2 pairs, size).

    Example:
        >>> reparametrised_gradients(torch.tensor([[1.0], [3.0]]))
        tensor([[2.]])
    """
    ahead, behind = gradients.chunk(2)
    return (ahead + behind) / 2


class Combined(NamedTuple):
    """One estimate of the gradient.

    Attributes:
        gradient: (size,).
        share: Weight of evolution strategies in each coordinate, (size,).
    """

    gradient: Tensor
    share: Tensor


def combined(evolution: Tensor, reparametrised: Tensor) -> Combined:
    """The mean of both over the pairs, each coordinate weighted by the inverse of its empirical variances.

    With known variances it would be unbiased with the lowest variance of all weighted means; with those of the pairs
    themselves both hold nearly, the better the more pairs.

    Args:
        evolution: (pairs, size), at least two pairs.
        reparametrised: The same.

    Example:
        >>> exact, noisy = torch.tensor([[1.0], [1.0]]), torch.tensor([[-9.0], [9.0]])
        >>> torch.allclose(combined(noisy, exact).gradient, torch.ones(1))
        True
    """
    precise, other = (1 / (each.var(0) + _SMALLEST) for each in (evolution, reparametrised))
    share = precise / (precise + other)
    return Combined(share * evolution.mean(0) + (1 - share) * reparametrised.mean(0), share)


def estimate(evolution: Tensor, reparametrised: Tensor | None, *, estimator: Estimator) -> Combined:
    """By one of the two alone, or by both.

    Example:
        >>> estimate(torch.tensor([[1.0], [3.0]]), None, estimator="es").gradient
        tensor([2.])
    """
    if reparametrised is None or estimator == "es":
        return Combined(evolution.mean(0), torch.ones_like(evolution[0]))
    if estimator == "reparametrised":
        return Combined(reparametrised.mean(0), torch.zeros_like(evolution[0]))
    return combined(evolution, reparametrised)
