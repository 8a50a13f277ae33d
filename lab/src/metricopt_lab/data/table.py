"""A data set as one frozen record: features, target, groups, and where they came from."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from metricopt.core.errors import DataError
from metricopt.core.registry import Registry


# Comparing field by field would compare arrays, whose truth is ambiguous; compare fingerprints instead.
@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Rows with numeric features, an integer target, and group codes for slices and shifts.

    Attributes:
        features: float32, (rows, columns).
        target: Class of each row, int64, 0 .. classes - 1, (rows,).
        columns: Name of each feature.
        classes: Number of classes.
        name: Name of the data set.
        source: One sentence of attribution.
        groups: Group code of each row by kind of group, int64, (rows,) each.
        official_train: How many of the first rows its publishers call the training set, where they do.

    Example:
        >>> table = Table(np.zeros((4, 2), np.float32), np.array([0, 1, 1, 1]), columns=("a", "b"), classes=2,
        ...               name="toy", source="made up", groups={"half": np.array([0, 0, 1, 1])})
        >>> table
        Table('toy': 4 rows x 2 features, classes 0: 25.0%, 1: 75.0%, groups half: 2)
        >>> table.rows(table.groups["half"] == 1).target
        array([1, 1])
    """

    features: np.ndarray
    target: np.ndarray
    columns: tuple[str, ...]
    classes: int
    name: str
    source: str
    groups: Mapping[str, np.ndarray] = field(default_factory=dict)
    official_train: int | None = None

    def __post_init__(self) -> None:
        self._check_features()
        for label, codes in {"target": self.target, **self.groups}.items():
            if codes.shape != (len(self),) or codes.dtype != np.int64:
                raise DataError(
                    f"{label} of table {self.name!r} is {codes.dtype} of shape {codes.shape}; "
                    f"expected int64 of shape ({len(self)},), one code a row"
                )
        if len(self) and not (self.target.min() >= 0 and self.target.max() < self.classes):
            raise DataError(
                f"targets of table {self.name!r} run from {self.target.min()} to {self.target.max()}; "
                f"expected 0 to {self.classes - 1} for {self.classes} classes: renumber them"
            )

    def _check_features(self) -> None:
        expected = (len(self.target), len(self.columns))
        if self.features.shape != expected or self.features.dtype != np.float32:
            raise DataError(
                f"features of table {self.name!r} are {self.features.dtype} of shape {self.features.shape}; "
                f"expected float32 of shape {expected}, a row for each target and a column for each name"
            )
        finite = np.isfinite(self.features)
        if not finite.all():
            raise DataError(
                f"{int((~finite).sum())} features of table {self.name!r} are NaN or infinite; "
                f"expected finite numbers: fill or drop them before building the table"
            )

    def __len__(self) -> int:
        return len(self.target)

    def __repr__(self) -> str:
        counts = np.bincount(self.target, minlength=self.classes)
        classes = ", ".join(f"{label}: {count / max(len(self), 1):.1%}" for label, count in enumerate(counts))
        groups = ", ".join(f"{kind}: {len(np.unique(codes))}" for kind, codes in self.groups.items())
        tail = f", groups {groups}" if groups else ""
        return f"Table({self.name!r}: {len(self)} rows x {len(self.columns)} features, classes {classes}{tail})"

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of the contents (features, target, names of columns, groups), worked out once."""
        digest = hashlib.sha256(repr((self.features.shape, self.columns, self.classes, sorted(self.groups))).encode())
        for array in (self.features, self.target, *(self.groups[kind] for kind in sorted(self.groups))):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def rows(self, index: np.ndarray) -> "Table":
        """The same table with some of its rows: positions, or a mask."""
        return Table(
            self.features[index],
            self.target[index],
            self.columns,
            self.classes,
            name=self.name,
            source=self.source,
            groups={kind: codes[index] for kind, codes in self.groups.items()},
        )


DATASETS: Registry[Callable[[], Table]] = Registry("data set")


def indicators(codes: np.ndarray, count: int) -> np.ndarray:
    """One-hot columns of `codes` in 0 .. count - 1 as float32, (rows, count); any other code sets nothing.

    Example:
        >>> indicators(np.array([1, 255]), 2)
        array([[0., 1.],
               [0., 0.]], dtype=float32)
    """
    columns = np.zeros((len(codes), count), np.float32)
    known = np.flatnonzero((codes >= 0) & (codes < count))
    columns[known, codes[known]] = 1
    return columns
