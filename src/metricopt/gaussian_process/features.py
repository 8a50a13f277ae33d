"""A kernel over the steps 0, 1, ..., T - 1 of a path as a product of a few features of each step."""

import math

import torch
from torch import Tensor

# Of the kernel between the nodes: eigenvalues below it change no correlation by more than 1e-12.
_SMALLEST_EIGENVALUE = 1e-11


def expected_rank(length_scale: float) -> float:
    """About the number of columns of `features`.

    Example:
        >>> round(expected_rank(1.0)), round(expected_rank(0.1))
        (8, 30)
    """
    return 6 + 2.4 / length_scale


def features(steps: int, length_scale: Tensor) -> Tensor:
    """F (steps, rank) of a kernel F F^T over all steps, from the kernel's eigenvectors at a few nodes (Nystroem).

    Example:
        >>> some = features(50, torch.tensor(0.5))
        >>> round((some[3] @ some[8]).item(), 9) == round(math.exp(-0.5 * (0.1 / 0.5) ** 2), 9)
        True
    """
    nodes = 10 + math.ceil(3.5 / length_scale.item())
    every = torch.arange(max(steps, nodes), dtype=torch.float64, device=length_scale.device)
    # Chebyshev's: denser at the ends of the path, where equally spaced ones would predict badly.
    near = (steps - 1) / steps * (0.5 - 0.5 * torch.cos(math.pi / nodes * (every[:nodes] + 0.5)))
    values, vectors = torch.linalg.eigh(line_rbf(near, near, length_scale))
    rank = int((values > _SMALLEST_EIGENVALUE).sum())
    return line_rbf(every[:steps] / steps, near, length_scale) @ (vectors[:, -rank:] * values[-rank:].rsqrt())


def with_every_step(observed: Tensor, steps: int, length_scales: Tensor, row: Tensor) -> Tensor:
    """Correlations (batch, n, steps) of observed steps (batch, n) with all steps.

    Args:
        observed: The steps.
        steps: Number of all steps.
        length_scales: Those in use, (lengths,).
        row: Index of each member's among them, (batch,).

    Example:
        >>> some = with_every_step(torch.tensor([[3]]), 10, torch.tensor([0.1, 0.5]), torch.tensor([1]))
        >>> some.shape, round(some[0, 0, 8].log().item(), 9)
        (torch.Size([1, 1, 10]), -0.5)
    """
    apart = torch.arange(1 - steps, steps, dtype=torch.float64, device=row.device) / steps
    table = line_rbf(apart.new_zeros(1), apart, length_scales).squeeze(1)  # (lengths, 2 * steps - 1)
    # Each step's correlations are a window of the table, so that only the table has to be computed.
    starts = row[:, None] * table.shape[1] + (steps - 1 - observed)
    return table.flatten().unfold(0, steps, 1).index_select(0, starts.flatten()).view(*observed.shape, steps)


def line_rbf(a: Tensor, b: Tensor, length_scale: Tensor) -> Tensor:
    """Correlations (..., n, m) of numbers (..., n) and (..., m) for length scales (...,).

    Example:
        >>> round(line_rbf(torch.zeros(1), torch.ones(1), torch.tensor(1.0)).log().item(), 12)
        -0.5
    """
    scale = (math.sqrt(0.5) / length_scale.double())[..., None]
    # Scaled before and not after the subtraction: a pass less over the larger matrix.
    apart = (a * scale).unsqueeze(-1) - (b * scale).unsqueeze(-2)
    # e^-50 is nothing beside 1; less would take the processor's slow path for tiny numbers, here and in every product.
    return apart.square_().clamp_max_(50).neg_().exp_()
