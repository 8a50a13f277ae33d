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
    squares = _squares(grams)
    # By elimination: products[:, i] become those of what is left of vector i with all others, made[:, i] the
    # coefficients of which it is made.
    products = grams.copy()
    made = np.eye(size)[None].repeat(population, 0)
    waiting = np.ones((population, size), dtype=bool)
    combinations = np.zeros_like(grams)
    for turn in range(size):
        distances = np.where(waiting, np.einsum("pii->pi", products) / squares, 0.0)  # of unit vectors, squared
        pick = distances.argmax(1)
        found = distances[members, pick] > SMALLEST_SINGULAR_VALUE**2
        waiting[members, pick] = False
        chosen = products[members, pick]
        own = made[members, pick]
        square = np.where(found, chosen[members, pick], 1.0)
        combinations[:, turn] = own * (found / np.sqrt(square))[:, None]
        shares = products[members, :, pick] / square[:, None] * (waiting & found[:, None])
        products -= shares[:, :, None] * chosen[:, None, :]
        made -= shares[:, :, None] * own[:, None, :]
    return combinations


def _squares(grams: np.ndarray) -> np.ndarray:
    """Squared lengths, rounded as in `_single_phi`, so that of vectors equally far away the same one is picked."""
    lengths = np.sqrt(np.maximum(np.einsum("pii->pi", grams), TINY))
    return lengths * lengths
