"""UCI Adult (census income), shipped with the package, as LIBSVM's A9A or with its numbers as they are."""

from collections.abc import Callable
from importlib import resources

import numpy as np

from metricopt_lab.data.adult_attributes import ATTRIBUTES, TRAIN_ROWS
from metricopt_lab.data.table import DATASETS, Table, indicators

SOURCE = (
    "Becker, B. and Kohavi, R. (1996), Adult, UCI Machine Learning Repository, doi:10.24432/C5XW20, CC BY 4.0; "
    "integer-coded, then "
)

NumericColumns = Callable[[str, np.ndarray], tuple[list[str], np.ndarray]]


@DATASETS.add("adult_a9a")
def adult_a9a() -> Table:
    """Adult as the 123 binary features of LIBSVM's A9A, row for row: 32,561 training rows, then 16,281 test rows.

    The target is 1 for an income above 50K. Categories are one-hot and a missing one sets nothing; numbers are cut at
    the quintiles of the training rows. Groups: "sex" (0 female, 1 male), "race" (0 .. 4 in the order of UCI's
    adult.names) and "sex_race" (5 * sex + race). Each call builds new arrays, in some 0.1 s.

    Example:
        >>> adult_a9a()
        Table('adult_a9a': 48842 rows x 123 features, classes 0: 76.1%, 1: 23.9%, groups sex: 2, race: 5, sex_race: 10)
    """
    return _table("adult_a9a", _quintile_columns, SOURCE + "turned into the binary features of LIBSVM's A9A")


@DATASETS.add("adult_raw")
def adult_raw() -> Table:
    """Adult with its 6 numbers as they are (neither scaled nor cut) and 99 one-hot categories.

    Rows, target and groups are those of `adult_a9a`; a missing category sets nothing.

    Example:
        >>> table = adult_raw()
        >>> table.columns[:3], table.features[0, :3], table.official_train
        (('age', 'workclass=Private', 'workclass=Self-emp-not-inc'), array([39.,  0.,  0.], dtype=float32), 32561)
    """
    return _table("adult_raw", _plain_column, SOURCE + "categories one-hot")


def _table(name: str, numeric_columns: NumericColumns, source: str) -> Table:
    values = _shipped()
    names: list[str] = []
    blocks: list[np.ndarray] = []
    for attribute, categories in ATTRIBUTES.items():
        if categories:
            names += [f"{attribute}={category}" for category in categories]
            blocks.append(indicators(values[attribute], len(categories)))
        else:
            labels, block = numeric_columns(attribute, values[attribute])
            names += labels
            blocks.append(block)
    sex, race = values["sex"], values["race"]
    return Table(
        np.concatenate(blocks, axis=1),
        values["target"],
        columns=tuple(names),
        classes=2,
        name=name,
        source=source,
        groups={"sex": sex, "race": race, "sex_race": sex * len(ATTRIBUTES["race"]) + race},
        official_train=TRAIN_ROWS,
    )


def _shipped() -> dict[str, np.ndarray]:
    path = resources.files("metricopt_lab.data").joinpath("files", "adult.npz")
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return {name: arrays[name].astype(np.int64) for name in arrays.files}


def _plain_column(attribute: str, values: np.ndarray) -> tuple[list[str], np.ndarray]:
    return [attribute], values[:, None].astype(np.float32)


def _quintile_columns(attribute: str, values: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Indicator of each bin between quintiles of the training rows; bins without a training row are dropped."""
    edges = quintile_edges(values[:TRAIN_ROWS])
    bins = np.searchsorted(edges, values, side="right")
    used = np.unique(bins[:TRAIN_ROWS])
    lower = ["", *(f"{edge} <= " for edge in edges)]
    upper = [*(f" < {edge}" for edge in edges), ""]
    return [lower[k] + attribute + upper[k] for k in used], indicators(bins, len(edges) + 1)[:, used]


def quintile_edges(train: np.ndarray) -> list[int]:
    """Lower edges of bins 2 to 5 as in A9A: order statistics of the training values, pushed up by 1 where they tie.

    Example:
        >>> quintile_edges(np.arange(1, 11))
        [2, 4, 6, 8]
        >>> quintile_edges(np.array([0, 0, 0, 0, 7]))
        [0, 1, 2, 3]
    """
    ordered = np.sort(train)
    edges: list[int] = []
    for fifth in range(1, 5):
        edge = int(ordered[-(-fifth * len(ordered) // 5) - 1])
        edges.append(max(edge, edges[-1] + 1) if edges else edge)
    return edges
