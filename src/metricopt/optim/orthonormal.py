"""Orthonormal combinations of a few vectors from their inner products, by Gram and Schmidt.

Always with the vector that is farthest from the span so far: otherwise an arbitrary direction would come in where one
depends on those before. One matrix at a time in plain Python, where calls of a library would take longer than the
arithmetic, and many at once in NumPy: the same steps, chosen by measurement.
"""

import math

import numpy as np

# Unit vectors whose smallest combination is shorter than this differ by little more than float32 rounding.
SMALLEST_SINGULAR_VALUE = 1e-4
TINY = float(np.finfo(np.float64).tiny)
# From so many matrices on, NumPy is faster.
MANY = 4


def orthonormal_combinations(grams: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of coefficients, (population, size, size), and ranks, (population,); rows beyond the rank are zero.

    Example:
        >>> rows, ranks = orthonormal_combinations(np.array([[[4.0, 0.0], [0.0, 9.0]]]))
        >>> rows[0].round(3).tolist(), ranks.tolist()
        ([[0.5, 0.0], [0.0, 0.333]], [2])
    """
    return combinations_of_many(grams) if len(grams) >= MANY else combinations_of_few(grams)


def combinations_of_few(grams: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same in plain Python, member by member.

    Example:
        >>> combinations_of_few(np.zeros((1, 2, 2)))[1].tolist()
        [0]
    """
    found = [combinations_of_one(gram) for gram in grams.tolist()]
    nothing = [0.0] * grams.shape[1]
    padded = [[*some, *[nothing] * (grams.shape[1] - len(some))] for some in found]
    return np.array(padded), np.array([len(some) for some in found])


def combinations_of_one(rows: list[list[float]]) -> list[list[float]]:
    """As many rows of coefficients as the rank of one matrix of inner products, which is used up.

    Example:
        >>> combinations_of_one([[4.0, 0.0], [0.0, 0.0]])
        [[0.5, 0.0]]
    """
    # By elimination: row i begins with the products of what is left of vector i with all others and ends with the
    # coefficients of which it is made. Plain loops: the calls that comprehensions make would take half of the time.
    size, squares = len(rows), []
    for i, row in enumerate(rows):
        length = math.sqrt(max(row[i], TINY))
        squares.append(length * length)
        row += [0.0] * size
        row[size + i] = 1.0
    waiting, found = list(range(size)), []
    while waiting:
        pick, farthest = -1, SMALLEST_SINGULAR_VALUE**2
        for i in waiting:
            distance = rows[i][i] / squares[i]  # of the unit vector from the span, squared
            if distance > farthest:
                pick, farthest = i, distance
        if pick < 0:
            break
        waiting.remove(pick)
        chosen = rows[pick]
        for i in waiting:
            row, share = rows[i], rows[i][pick] / chosen[pick]
            for j, entry in enumerate(chosen):
                row[j] -= share * entry
        length = math.sqrt(chosen[pick])
        found.append([entry / length for entry in chosen[size:]])
    return found


def combinations_of_many(grams: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same for all members at once.

    Example:
        >>> combinations_of_many(np.zeros((1, 2, 2)))[1].tolist()
        [0]
    """
    population, size, _ = grams.shape
    lengths = np.sqrt(np.maximum(np.einsum("pii->pi", grams), TINY))
    unit = grams / (lengths[:, :, None] * lengths[:, None, :])
    left = np.einsum("pii->pi", unit).copy()  # squared distances of the unit vectors from the span
    combinations, members = np.zeros_like(grams), np.arange(population)
    for turn in range(size):
        pick = left.argmax(1)
        distance = left[members, pick]
        shares = np.einsum("pki,pi->pk", combinations[:, :turn], unit[members, pick])
        combination = np.eye(size)[pick] - np.einsum("pk,pki->pi", shares, combinations[:, :turn])
        kept = distance > SMALLEST_SINGULAR_VALUE**2
        combinations[:, turn] = combination * (kept / np.sqrt(np.where(kept, distance, 1.0)))[:, None]
        left -= np.einsum("pj,pij->pi", combinations[:, turn], unit) ** 2
    return combinations / lengths[:, None, :], combinations.any(2).sum(1)
