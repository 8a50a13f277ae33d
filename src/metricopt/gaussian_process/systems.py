"""What the likelihood needs of many symmetric systems, for several ratios of noise to signal each."""

import torch
from torch import Tensor

from metricopt.gaussian_process.conditioning import NUMBERS_AT_ONCE, cholesky, log_determinant, whitened
from metricopt.gaussian_process.fitting import quadratic

# Unknowns up to which plain elimination, all systems in one operation, is faster than LAPACK one by one.
SMALL = 20


def solved(matrix: Tensor, border: Tensor, ratios: Tensor) -> tuple[Tensor, Tensor]:
    """Products B^T (M + ratio)^-1 B and log |M + ratio| of every system at every ratio.

    Args:
        matrix: M, positive semi-definite, (systems, n, n).
        border: B, (systems, n, 2).
        ratios: Positive, (ratios,).

    Returns:
        The first column of B with itself, with the second, and the second with itself, (3, systems, ratios), and the
        logarithms, (systems, ratios).

    Example:
        >>> products, logarithm = solved(torch.diag(torch.tensor([3.0, 7.0]))[None], torch.eye(2)[None], torch.ones(1))
        >>> products.abs().flatten().tolist(), round(logarithm.exp().item(), 4)
        ([0.25, 0.0, 0.125], 32.0)
    """
    size = matrix.shape[-1]
    solve = _eliminated if size <= SMALL else _factorised
    at_once = max(1, NUMBERS_AT_ONCE // (len(ratios) * (size + 2) ** 2))
    parts = [solve(*some, ratios) for some in zip(matrix.split(at_once), border.split(at_once), strict=True)]
    return torch.cat([products for products, _ in parts], 1), torch.cat([logarithm for _, logarithm in parts])


def _eliminated(matrix: Tensor, border: Tensor, ratios: Tensor) -> tuple[Tensor, Tensor]:
    """By Gauss, with the systems last: without its n unknowns [[M + ratio, B], [B^T, 0]] is - B^T (M + ratio)^-1 B."""
    systems, n, _ = matrix.shape
    rest = matrix.new_empty(n + 2, n + 2, len(ratios), systems)
    rest[:n, :n] = matrix.permute(1, 2, 0).unsqueeze(2)
    rest[:n, :n].diagonal().add_(ratios[:, None, None])  # (ratios, systems, n)
    rest[:n, n:] = border.permute(1, 2, 0).unsqueeze(2)
    rest[n:, :n] = border.permute(2, 1, 0).unsqueeze(2)
    rest[n:, n:] = 0
    for k in range(n):
        row = rest[k, k + 1 :]
        rest[k + 1 :, k + 1 :].addcmul_(row.unsqueeze(1), row / rest[k, k], value=-1)
    pivots = rest[:n, :n].diagonal()  # (ratios, systems, n)
    products = -torch.stack([rest[n, n], rest[n, n + 1], rest[n + 1, n + 1]])
    return products.mT, pivots.log().sum(-1).mT


def _factorised(matrix: Tensor, border: Tensor, ratios: Tensor) -> tuple[Tensor, Tensor]:
    """By Cholesky."""
    systems = len(matrix)
    noisy = matrix.unsqueeze(1).repeat(1, len(ratios), 1, 1)  # (systems, ratios, n, n)
    noisy.diagonal(dim1=-2, dim2=-1).add_(ratios[:, None])
    factor = cholesky(noisy.flatten(0, 1))
    white = whitened(factor, border.repeat_interleave(len(ratios), 0))
    products = torch.stack(quadratic(white)).view(3, systems, len(ratios))
    return products, log_determinant(factor).view(systems, len(ratios))
