"""Zero mean and unit deviation, as measured on the training rows."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Standardiser:
    """Shift and scale of each column; fit it on training rows only and apply it to every set.

    Attributes:
        mean: Mean of each column, float32, (columns,).
        std: Standard deviation of each column, 1 where the column is constant, float32, (columns,).

    Example:
        >>> train = np.array([[1.0, 5.0], [3.0, 5.0]], np.float32)
        >>> Standardiser.fit(train).apply(np.array([[2.0, 6.0], [4.0, 5.0]], np.float32))
        array([[0., 1.],
               [2., 0.]], dtype=float32)
    """

    mean: np.ndarray
    std: np.ndarray

    @classmethod
    def fit(cls, features: np.ndarray) -> "Standardiser":
        """Mean and deviation of training features, (rows, columns)."""
        mean = features.mean(axis=0, dtype=np.float64)
        std = features.std(axis=0, dtype=np.float64)
        # Rounding can leave a constant column a tiny deviation; dividing by it would blow up a row that differs.
        constant = features.min(axis=0) == features.max(axis=0)
        return cls(mean.astype(np.float32), np.where(constant, 1, std).astype(np.float32))

    def apply(self, features: np.ndarray) -> np.ndarray:
        """The features in units of the training deviation, as float32."""
        return ((features - self.mean) / self.std).astype(np.float32, copy=False)
