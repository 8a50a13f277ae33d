"""Is the value function any good? Measured on observations it never saw."""

import math
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from metricopt.core.errors import FlatValueWarning
from metricopt.core.ranks import rank_correlation
from metricopt.paper.value_function import ValueFunction


@dataclass(frozen=True)
class ValueHealth:
    """Health of a value function on held-out observations.

    Attributes:
        observations: How many there were.
        error: Mean absolute error in units of cost.
        rank_correlation: Spearman's, between predicted and true cost; 0 for a constant prediction.
        gradient_size: Median norm of its gradient with respect to phi.
        spread: Standard deviation of the true costs: an error of this size is no better than a constant.

    Example:
        >>> report = ValueHealth(observations=40, error=0.05, rank_correlation=0.1, gradient_size=0.3, spread=0.05)
        >>> report.flat, str(report)
        (True, 'rank correlation 0.10, error 0.0500 (spread 0.0500), gradient 0.3 on 40 unseen observations')
    """

    observations: int
    error: float
    rank_correlation: float
    gradient_size: float
    spread: float

    @property
    def flat(self) -> bool:
        """Whether following it would be following nothing."""
        # Written so that NaN, the mark of a diverged network, counts as flat.
        return not (self.gradient_size >= 1e-8 and self.rank_correlation >= 0.2)

    def __str__(self) -> str:
        return (
            f"rank correlation {self.rank_correlation:.2f}, error {self.error:.4f} (spread {self.spread:.4f}), "
            f"gradient {self.gradient_size:.2g} on {self.observations} unseen observations"
        )


def health(value: ValueFunction, phi: Tensor, costs: Tensor) -> ValueHealth:
    """Health of `value` on unseen phi (n, dim) with their true costs (n,).

    Example:
        >>> phi = torch.linspace(-1, 1, 20)[:, None]
        >>> health(lambda x: x[:, 0], phi, phi[:, 0]).rank_correlation
        1.0
    """
    known = ~costs.isnan()
    phi, costs = phi[known].detach(), costs[known]
    with torch.enable_grad():
        leaf = phi.clone().requires_grad_()
        predicted = value(leaf)
        gradient = torch.autograd.grad(predicted.sum(), leaf)[0] if predicted.requires_grad else torch.zeros_like(leaf)
    predicted = predicted.detach()
    return ValueHealth(
        observations=len(costs),
        error=float((predicted - costs).abs().mean()),
        rank_correlation=rank_correlation(predicted, costs),
        gradient_size=float(gradient.norm(dim=-1).median()),
        spread=float(costs.std(correction=0)) if len(costs) else math.nan,
    )


def warn_if_flat(report: ValueHealth) -> None:
    """Say loudly, once, that a value function is flat, with the remedy.

    Example:
        >>> phi = torch.linspace(-1, 1, 20)[:, None]
        >>> with warnings.catch_warnings(record=True, action="always") as caught:
        ...     warn_if_flat(health(lambda x: 0 * x[:, 0], phi, phi[:, 0]))
        >>> [warning.category.__name__ for warning in caught]
        ['FlatValueWarning']
    """
    if report.flat:
        warnings.warn(
            f"the value function is flat: {report}; finetuning with it would change nothing: train it offline with "
            f"norm='none' or 'layer' and standardise=True on more trajectories, or query the metric more often",
            FlatValueWarning,
            stacklevel=3,
        )
