"""Packs the two small tables that `metricopt demo` ships, integer-coded, from the whole data sets.

Usage: python tools/pack_demo.py covtype.npz adult.npz src/metricopt/demo/files

covtype.npz is the file that METRICOPT_DATA holds (arrays num, wilderness, soil, y), adult.npz the one that the
laboratory ships.
"""

import sys
from pathlib import Path

import numpy as np

NUMBERS = (
    *("elevation", "aspect", "slope", "horizontal_distance_to_hydrology", "vertical_distance_to_hydrology"),
    *("horizontal_distance_to_roadways", "hillshade_9am", "hillshade_noon", "hillshade_3pm"),
    "horizontal_distance_to_fire_points",
)
RAWAH, COMANCHE_PEAK = 0, 2
COVERS = (1, 2, 5, 7)
"""Spruce or fir, lodgepole pine, aspen, krummholz: the cover types that grow in both areas."""
ROWS_AN_AREA, ROWS_OF_ADULT = 12_000, 30_000
LEFT_OUT = ("fnlwgt", "education")
"""A weight of the survey, nothing about the person; and the same as education-num in words."""


def smallest(values: np.ndarray) -> np.ndarray:
    """The same integers in the smallest type that holds them."""
    low, high = int(values.min()), int(values.max())
    return values.astype(np.result_type(np.min_scalar_type(low), np.min_scalar_type(high)))


def drawn(rows: np.ndarray, count: int, draw: np.random.Generator) -> np.ndarray:
    """So many of the rows, each equally likely, in their old order."""
    return np.sort(draw.choice(rows, count, replace=False))


def forests(path: Path) -> dict[str, np.ndarray]:
    """Equally many rows of both areas, in the proportions in which the four cover types grow there."""
    with np.load(path, allow_pickle=False) as whole:
        numbers, area, soil, cover = (whole[name] for name in ("num", "wilderness", "soil", "y"))
    draw, common = np.random.default_rng(0), np.isin(cover, COVERS)
    both = (np.flatnonzero(common & (area == each)) for each in (RAWAH, COMANCHE_PEAK))
    rows = np.concatenate([drawn(each, ROWS_AN_AREA, draw) for each in both])
    columns = {name: smallest(numbers[rows, k]) for k, name in enumerate(NUMBERS)}
    shifted = (area[rows] == COMANCHE_PEAK).astype(np.uint8)
    target = np.searchsorted(COVERS, cover[rows]).astype(np.uint8)
    return columns | {"soil": soil[rows], "elsewhere": shifted, "target": target}


def incomes(path: Path) -> dict[str, np.ndarray]:
    """Some rows of Adult."""
    with np.load(path, allow_pickle=False) as whole:
        columns = {name: whole[name] for name in whole.files if name not in LEFT_OUT}
    rows = drawn(np.arange(len(columns["target"])), ROWS_OF_ADULT, np.random.default_rng(0))
    return {name: smallest(column[rows]) for name, column in columns.items()}


def write(arrays: dict[str, np.ndarray], path: Path) -> None:
    """Write the arrays, compressed."""
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    covtype, adult, folder = map(Path, sys.argv[1:])
    write(forests(covtype), folder / "forests.npz")
    write(incomes(adult), folder / "incomes.npz")
