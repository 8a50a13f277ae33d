"""The two tables that come with the demo, as rows to train on, to query the metric on, and to test on."""

import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from metricopt.core.seeding import stream

Rows = tuple[Tensor, Tensor]
"""Inputs (n, features) and classes (n,)."""


class Table(NamedTuple):
    """A shipped table.

    Attributes:
        columns: Integers by name, (rows,) each.
        target: Class of each row, (rows,).
        elsewhere: Which rows are of another population than those to train on, (rows,).
        fingerprint: SHA-256 of the contents.

    Example:
        >>> table = shipped("forests")
        >>> len(table.target), int(table.elsewhere.sum()), len(table.columns)
        (24000, 12000, 11)
    """

    columns: dict[str, np.ndarray]
    target: np.ndarray
    elsewhere: np.ndarray
    fingerprint: str


class Parts(NamedTuple):
    """Rows that have no row in common: for training, for the metric's queries and the decision, and for the test.

    Example:
        >>> [len(targets) for _, targets in parts(shipped("incomes"), ("race", "sex"), sizes=(900, 500, 200), seed=0)]
        [900, 500, 200]
    """

    train: Rows
    val: Rows
    test: Rows


def shipped(name: str) -> Table:
    """The table of that name, "forests" or "incomes"; see README.txt beside the files for origin and licence."""
    file = resources.files("metricopt.demo").joinpath(f"files/{name}.npz")
    with file.open("rb") as opened, np.load(opened, allow_pickle=False) as arrays:
        columns = {key: arrays[key] for key in arrays.files}
    digest = hashlib.sha256(b"".join(key.encode() + column.tobytes() for key, column in columns.items()))
    target = columns.pop("target").astype(np.int64)
    elsewhere = columns.pop("elsewhere", np.zeros(len(target))).astype(bool)
    return Table(columns, target, elsewhere, digest.hexdigest())


def parts(table: Table, categories: Sequence[str], *, sizes: tuple[int, int, int], seed: int) -> Parts:
    """Rows drawn at random: where a table knows of another population, all but the training rows are from there.

    Args:
        table: All rows.
        categories: Columns whose integers are codes; the others are numbers.
        sizes: Rows for training, for the metric and for the test.
        seed: Which rows are which depends on it alone.
    """
    order = torch.randperm(len(table.target), generator=stream(seed, "demo", "rows")).numpy()
    away = order[table.elsewhere[order]]
    home = order[~table.elsewhere[order]]
    train, queried, tested = sizes
    rest = away if len(away) else home[train:]
    rows = (home[:train], rest[:queried], rest[queried : queried + tested])
    inputs = _inputs(table, categories, rows[0])
    return Parts(*((inputs[part], torch.from_numpy(table.target[part])) for part in rows))


def _inputs(table: Table, categories: Sequence[str], train: np.ndarray) -> Tensor:
    """Numbers standardised by the training rows and codes as indicators, (rows, features)."""
    columns = []
    for name, column in table.columns.items():
        if name in categories:
            # A code that no training row has would meet weights that were never trained.
            columns += [column == code for code in np.unique(column[train])]
        else:
            columns.append((column - column[train].mean()) / column[train].std())
    return torch.from_numpy(np.stack(columns, 1).astype(np.float32))
