"""Orthonormal combinations of a few vectors from their inner products, by Gram and Schmidt.

Always with the vector that is farthest from the span so far: otherwise an arbitrary direction would come in where one
depends on those before. One matrix at a time in plain Python, where calls of a library would take longer than the
arithmetic, and many at once in NumPy: the same steps, chosen by measurement.
"""

import math
from collections.abc import Sequence

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


def combinations_of_one(rows: list[list[float]], lengths: Sequence[float] | None = None) -> list[list[float]]:
    """As many rows of coefficients as the rank of one matrix of inner products, which is used up.

    Args:
        rows: The matrix.
        lengths: Of what they combine to, one for each possible rank from 0 on; by default 1.

    Example:
        >>> combinations_of_one([[4.0, 0.0], [0.0, 0.0]]), combinations_of_one([[4.0]], [0.0, 3.0])
        ([[0.5, 0.0]], [[1.5]])
    """
    # By elimination: `rows[i]` become the products of what is left of vector i with all others, `made[i]` the
    # coefficients of which it is made. Plain loops: the calls that comprehensions make would take half of the time.
    size = len(rows)
    waiting, picked, found, squares, made = list(range(size)), [], [], [], []
    for i in waiting:
        length = math.sqrt(max(rows[i][i], TINY))
        squares.append(length * length)  # rounded as where many are done at once: of equal ones the same is picked
        own = [0.0] * size
        own[i] = 1.0
        made.append(own)
    while waiting:
        pick, farthest = -1, SMALLEST_SINGULAR_VALUE**2
        for i in waiting:
            distance = rows[i][i] / squares[i]  # of the unit vector from the span, squared
            if distance > farthest:
                pick, farthest = i, distance
        if pick < 0:
            break
        waiting.remove(pick)
        picked.append(pick)
        chosen, own = rows[pick], made[pick]
        for i in waiting:
            row, mine = rows[i], made[i]
            share = row[pick] / chosen[pick]
            for j in waiting:
                row[j] -= share * chosen[j]
            for j in picked:
                mine[j] -= share * own[j]
        found.append(own)
    length = 1.0 if lengths is None else lengths[len(found)]
    for pick, own in zip(picked, found, strict=True):
        share = length / math.sqrt(rows[pick][pick])
        for j in picked:
            own[j] *= share
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
