"""Packs UCI's adult.data and adult.test (plain or .gz) into the integer-coded file shipped with metricopt.

Usage: python tools/pack_adult.py adult.data adult.test src/metricopt/data/files/adult.npz
"""

import gzip
import hashlib
import sys
from pathlib import Path

import numpy as np

from metricopt.core.errors import DataError
from metricopt_lab.data.adult_attributes import ATTRIBUTES, MISSING

SHA256 = (
    "df25a4e32ed6f1bd4b3910d21a7bd661a09061eced7cb45555a519d9667cc87b",
    "5c8e678e04c82a07182bbcb6667c9a06faaba123a55b409af7c5d21fb45784b3",
)


def rows_of(path: Path, sha256: str) -> list[list[str]]:
    """The rows of one verified text file, split at the commas, without the dot that ends a row of adult.test."""
    payload = path.read_bytes()
    text = (gzip.decompress(payload) if path.suffix == ".gz" else payload).decode("ascii")
    # UCI's own files have a remark on top of the test rows and blank lines at the end; the sum is over rows alone.
    lines = [line for line in text.splitlines() if line and not line.startswith("|")]
    found = hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()
    if found != sha256:
        raise DataError(f"the rows of {path} have sha256 {found}; expected {sha256}: get the file from UCI again")
    return [line.rstrip(".").split(", ") for line in lines]


def coded(values: list[str], categories: tuple[str, ...]) -> np.ndarray:
    """Numbers as they are, categories by position, in the smallest unsigned type that holds them."""
    if categories:
        return np.array([MISSING if value == "?" else categories.index(value) for value in values], np.uint8)
    numbers = np.array([int(value) for value in values])
    return numbers.astype(np.min_scalar_type(int(numbers.max())))


def pack(train: Path, test: Path) -> dict[str, np.ndarray]:
    """One array for each attribute and the target, training rows first."""
    *columns, income = zip(*rows_of(train, SHA256[0]), *rows_of(test, SHA256[1]), strict=True)
    arrays = {
        name: coded(list(column), categories)
        for (name, categories), column in zip(ATTRIBUTES.items(), columns, strict=True)
    }
    return arrays | {"target": np.array([value == ">50K" for value in income], np.uint8)}


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    train_file, test_file, packed_file = map(Path, sys.argv[1:])
    with packed_file.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **pack(train_file, test_file))
