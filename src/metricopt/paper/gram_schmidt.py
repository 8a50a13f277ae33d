"""Orthonormal combinations of a few vectors from their inner products, by Gram and Schmidt, for many members at once.

Always with the vector that is farthest from the span so far: otherwise an arbitrary direction would come in where one
depends on those before.
"""

import numpy as np

# Unit vectors whose smallest combination is shorter than this differ by little more than float32 rounding.
SMALLEST_SINGULAR_VALUE = 1e-4
TINY = float(np.finfo(np.float64).tiny)


def orthonormal_combinations(grams: np.ndarray) -> np.ndarray:
    """Rows of coefficients, (population, size, size); as many as the rank is smaller than `size` are zero.

    In NumPy: on matrices as small as these torch takes twice as long.

    Args:
        grams: Inner products of each member's vectors, (population, size, size).

    Example:
        >>> orthonormal_combinations(np.array([[[4.0, 0.0], [0.0, 9.0]]]))[0].round(3).tolist()
        [[0.5, 0.0], [0.0, 0.333]]
    """
    population, size, _ = grams.shape
    members = np.arange(population)
    lengths = np.sqrt(np.maximum(np.einsum("pii->pi", grams), TINY))
    unit = grams / (lengths[:, :, None] * lengths[:, None, :])
    left = np.einsum("pii->pi", unit).copy()  # squared distances of the unit vectors from the span
    combinations = np.zeros_like(grams)
    for turn in range(size):
        pick = left.argmax(1)
        before = combinations[:, :turn]
        shares = np.einsum("pki,pi->pk", before, unit[members, pick])
        rest = np.eye(size)[pick] - np.einsum("pk,pki->pi", shares, before)
        combinations[:, turn] = rest * _one_over_length(left[members, pick])[:, None]
        left -= np.einsum("pj,pij->pi", combinations[:, turn], unit) ** 2
    return combinations / lengths[:, None, :]


def _one_over_length(squares: np.ndarray) -> np.ndarray:
    """Of what is left of a vector; 0 where that is nothing but rounding."""
    kept = squares > SMALLEST_SINGULAR_VALUE**2
    return kept / np.sqrt(np.where(kept, squares, 1.0))
