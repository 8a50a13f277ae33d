"""UCI CoverType: from a local copy, the cache, or UCI itself, with the same verified contents."""

import hashlib
import io
import os
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from metricopt.core.errors import DataError
from metricopt_lab.data.archives import DAMAGE, bounded, gunzipped, npz_arrays
from metricopt_lab.data.download import cache_folder, fetch, keep
from metricopt_lab.data.table import DATASETS, Table, indicators

ADDRESSES = (
    "https://archive.ics.uci.edu/static/public/31/covertype.zip",
    "https://archive.ics.uci.edu/ml/machine-learning-databases/covtype/covtype.data.gz",
)
SHA256 = "17892fe2e90e1e082c4fd4a4aba9dbee1448d1ace7cddbf59ddaccc6c2676377"
SOURCE = "Blackard, J. (1998), Covertype, UCI Machine Learning Repository, doi:10.24432/C50K5N, CC BY 4.0"
NUMBERS = (
    *("elevation", "aspect", "slope", "horizontal_distance_to_hydrology", "vertical_distance_to_hydrology"),
    *("horizontal_distance_to_roadways", "hillshade_9am", "hillshade_noon", "hillshade_3pm"),
    "horizontal_distance_to_fire_points",
)
AREAS, SOILS, COVERS = 4, 40, 7
COLUMNS = (*NUMBERS, *(f"wilderness={k}" for k in range(AREAS)), *(f"soil={k}" for k in range(SOILS)))

_MOST = 100_000_000  # bytes of any part of it; UCI's table has 75,169,317


class Survey(NamedTuple):
    """CoverType without its zeros.

    Attributes:
        num: The ten numbers, int16, (rows, 10).
        wilderness: Area 0 .. 3, uint8, (rows,).
        soil: Type 0 .. 39, uint8, (rows,).
        y: Cover type 1 .. 7, uint8, (rows,).

    Example:
        >>> len(Survey(np.zeros((1, 10), np.int16), *np.ones((3, 1), np.uint8)).sha256)
        64
    """

    num: np.ndarray
    wilderness: np.ndarray
    soil: np.ndarray
    y: np.ndarray

    @property
    def sha256(self) -> str:
        """Checksum of the contents, the same for every file they can be read from."""
        digest = hashlib.sha256(self.num.astype("<i2").tobytes())
        for codes in (self.wilderness, self.soil, self.y):
            digest.update(codes.astype(np.uint8).tobytes())
        return digest.hexdigest()


def covtype(classes: int = 7) -> Table:
    """CoverType, 581,012 rows: 10 numbers as they are, 4 wilderness areas and 40 soil types one-hot.

    Looks for `covtype/covtype.npz`, `covtype/covtype.data.gz` and `covtype/covertype.zip` in the folder named by
    METRICOPT_DATA, then for an earlier download in METRICOPT_CACHE (`~/.cache/metricopt`), and downloads from UCI
    otherwise. Contents are verified each time. Each call builds new arrays, in about a second.

    Args:
        classes: 7 for the cover types as 0 .. 6, 2 for type 2 (lodgepole pine) against the rest, as in the paper.

    Returns:
        A table with the group "wilderness" (0 .. 3).

    Example:
        >>> covtype(classes=3)
        Traceback (most recent call last):
        metricopt.core.errors.DataError: classes is 3; expected 7 (all cover types) or 2 (type 2 against the rest)
    """
    if classes not in (2, COVERS):
        raise DataError(f"classes is {classes}; expected 7 (all cover types) or 2 (type 2 against the rest)")
    return _table(_survey(), classes)


@DATASETS.add("covtype2")
def covtype2() -> Table:
    """CoverType, type 2 against the rest; see `covtype`.

    Example:
        >>> DATASETS["covtype2"] is covtype2
        True
    """
    return covtype(classes=2)


@DATASETS.add("covtype7")
def covtype7() -> Table:
    """CoverType, all seven types; see `covtype`.

    Example:
        >>> DATASETS["covtype7"] is covtype7
        True
    """
    return covtype(classes=7)


def _table(survey: Survey, classes: int) -> Table:
    features = np.empty((len(survey.y), len(COLUMNS)), np.float32)
    features[:, : len(NUMBERS)] = survey.num
    features[:, len(NUMBERS) : -SOILS] = indicators(survey.wilderness, AREAS)
    features[:, -SOILS:] = indicators(survey.soil, SOILS)
    target = survey.y == 2 if classes == 2 else survey.y - 1
    return Table(
        features,
        target.astype(np.int64),
        columns=COLUMNS,
        classes=classes,
        name=f"covtype{classes}",
        source=SOURCE + ("; cover type 2 against the rest" if classes == 2 else ""),
        groups={"wilderness": survey.wilderness.astype(np.int64)},
    )


def _survey() -> Survey:
    folder = os.environ.get("METRICOPT_DATA")
    names = ("covtype.npz", "covtype.data.gz", "covertype.zip") if folder else ()
    cached = cache_folder() / "covtype.npz"
    for path in (*(Path(folder or "", "covtype", name) for name in names), cached):
        if path.exists():
            return verified(read(path), str(path))
    advice = (
        f"connect to the network, or get {ADDRESSES[0]} elsewhere, put it into a folder named covtype and set "
        f"METRICOPT_DATA (now {folder!r}) to the folder that holds it"
    )
    survey = verified(decode(fetch(ADDRESSES, otherwise=advice)), ADDRESSES[0])
    keep(cached, _archived(survey))
    return survey


def _archived(survey: Survey) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **survey._asdict())
    return file.getvalue()


def read(path: Path) -> Survey:
    """The survey in a file of ours (`.npz`) or of UCI's (`.data.gz`, `.zip`).

    Example:
        >>> read(Path("nowhere.npz"))
        Traceback (most recent call last):
        metricopt.core.errors.DataError: nowhere.npz cannot be read ...
    """
    try:
        if path.suffix != ".npz":
            return decode(path.read_bytes())
        return Survey(*npz_arrays(path, Survey._fields, most=_MOST))
    except DataError:
        raise
    except DAMAGE as error:
        raise DataError(
            f"{path} cannot be read ({error}); expected CoverType: delete the file and load again"
        ) from error


def decode(payload: bytes) -> Survey:
    """The survey in UCI's file: rows of 55 whole numbers, plain, gzipped, or that in a zip archive.

    Example:
        >>> row = [2596, 51, 3, 258, 0, 510, 221, 232, 148, 6279, *(k == 0 for k in range(4))]
        >>> row += [*(k == 28 for k in range(40)), 5]
        >>> survey = decode(",".join(str(int(value)) for value in row).encode())
        >>> survey.num[0, :3], survey.wilderness, survey.soil, survey.y
        (array([2596,   51,    3], dtype=int16), array([0], dtype=uint8), array([28], dtype=uint8), ...)
    """
    try:
        rows = np.loadtxt(io.BytesIO(_text(payload)), dtype=np.int16, delimiter=",", ndmin=2)  # (rows, 55)
    except DAMAGE as error:
        raise DataError(
            f"{payload[:20]!r}... cannot be decoded ({error}); expected UCI's covtype.data: get it again"
        ) from error
    if rows.shape[1] != len(COLUMNS) + 1:
        raise DataError(f"rows have {rows.shape[1]} numbers; expected {len(COLUMNS) + 1}, as in UCI's covtype.data")
    num, areas, soils, y = np.split(rows, [len(NUMBERS), len(NUMBERS) + AREAS, len(COLUMNS)], axis=1)
    for label, block in (("wilderness areas", areas), ("soil types", soils)):
        if not (np.isin(block, (0, 1)).all() and (block.sum(axis=1) == 1).all()):
            raise DataError(
                f"a row does not have exactly one of its {block.shape[1]} {label} set; expected UCI's layout"
            )
    codes = (part.astype(np.uint8) for part in (areas.argmax(axis=1), soils.argmax(axis=1), y[:, 0]))
    return Survey(num, *codes)


def _text(payload: bytes) -> bytes:
    if payload.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(payload)) as archive, archive.open("covtype.data.gz") as file:
            payload = bounded(file, _MOST)
    return gunzipped(payload, most=_MOST) if payload.startswith(b"\x1f\x8b") else payload


def verified(survey: Survey, origin: str) -> Survey:
    """The survey itself, if its contents are those of UCI's CoverType.

    Example:
        >>> verified(Survey(np.zeros((1, 10), np.int16), *np.ones((3, 1), np.uint8)), "a toy")
        Traceback (most recent call last):
        metricopt.core.errors.DataError: a toy holds 1 rows with sha256 ...
    """
    if survey.sha256 != SHA256:
        raise DataError(
            f"{origin} holds {len(survey.y)} rows with sha256 {survey.sha256}; expected CoverType's 581012 rows with "
            f"{SHA256}: delete the file and load again"
        )
    return survey
