"""Bayesian linear regression on the sphere (Doumont et al. 2025, "We still don't understand high-dimensional BO").

Points of the unit cube are centred, divided by a length scale a coordinate and by a global one, and carried to the unit
sphere by the inverse stereographic projection; there the kernel is linear: b_0 + b_1 <u, v>, with b_0 + b_1 = 1.
"""

import math
from typing import Any

import torch
from torch import Tensor

from metricopt.core.records import Outcome
from metricopt.task.oracle import Oracle
from metricopt_lab.rivals.libraries.box import Box
from metricopt_lab.rivals.libraries.expected_improvement import improved
from metricopt_lab.rivals.libraries.guest import guest, own_randomness
from metricopt_lab.rivals.libraries.surrogate import Surrogate
from metricopt_lab.rivals.named import baseline


@baseline("sphere_log_ei", thinks=True)
def sphere_log_ei(oracle: Oracle, *, queries: int, seed: int) -> Outcome:
    """A linear kernel on the sphere and LogEI by BoTorch in a box around 0.

    Example:
        >>> from metricopt.task.quadratic import QuadraticTask
        >>> task = QuadraticTask(dim=4)
        >>> outcome = sphere_log_ei(Oracle(task), queries=20, seed=0)
        >>> bool(task.costs(outcome.phi[None]) < task.costs(torch.zeros(1, 4)))
        True
    """
    with own_randomness(seed, "sphere") as number:
        box = Box(oracle, queries=queries)
        return improved(box, Surrogate(spherical_kernel), seed=number).best.outcome()


def on_sphere(scaled: Tensor) -> Tensor:
    """Points (..., dim) on the unit sphere of one dimension more: 0 is its south pole, infinity its north pole.

    Example:
        >>> on_sphere(torch.tensor([[0.0, 0.0], [3.0, 4.0]])).norm(dim=-1)
        tensor([1., 1.])
    """
    square = scaled.square().sum(-1, keepdim=True)
    return torch.cat([2 * scaled, square - 1], dim=-1) / (1 + square)


def spherical_kernel(dim: int) -> Any:
    """The kernel for points of a unit cube of `dim` dimensions, as a GPyTorch module."""
    guest("gpytorch")
    from gpytorch.constraints import GreaterThan
    from gpytorch.kernels import Kernel
    from gpytorch.priors import LogNormalPrior

    class Spherical(Kernel):
        has_lengthscale = True

        def __init__(self) -> None:
            prior = LogNormalPrior(loc=math.sqrt(2.0), scale=math.sqrt(3.0))
            bound = GreaterThan(0.025, initial_value=prior.mode)
            super().__init__(ard_num_dims=dim, lengthscale_prior=prior, lengthscale_constraint=bound)
            self.raw_shares = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))  # of b_0 and b_1
            self.raw_scale = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))

        def forward(  # the signature of GPyTorch's kernels
            self,
            x1: Tensor,
            x2: Tensor,
            diag: bool = False,
            last_dim_is_batch: bool = False,  # noqa: ARG002
            **params: Any,  # noqa: ARG002
        ) -> Tensor:
            # The corner of the cube is at most at distance 1 / sqrt(scale): at first all of it is near the equator.
            corner = (0.5 / self.lengthscale).square().sum(-1, keepdim=True)
            length = self.lengthscale * (torch.sigmoid(self.raw_scale) * corner).sqrt()
            one, two = on_sphere((x1 - 0.5) / length), on_sphere((x2 - 0.5) / length)
            constant, linear = torch.softmax(self.raw_shares, dim=-1)
            return constant + linear * ((one * two).sum(-1) if diag else one @ two.mT)

    return Spherical()
