"""Whether two sets of examples were kept apart, judged by their contents.

Equal rows alone prove nothing: real tables repeat themselves. In random splits of A9A a third of the test rows also
occur in the training rows. What tells taken rows from natural twins are the *rare* ones, rows of the smaller set that
the larger set holds at most once. If the smaller set was taken from the larger, each of them is found there. If not,
each is found about as often as a rare row of the larger set finds a twin in its own set (leave one out).
"""

from collections.abc import Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch

from metricopt.core.errors import DataError

Rows = np.ndarray | torch.Tensor
Examples = Rows | tuple[Rows, ...]

# The part of rare rows, beyond the natural one, that must be found in the other set. On A9A random splits, the official
# split, and validation sets of a single sex, race, country, education or class stay below 0.05; a training set stripped
# of its duplicates reaches 0.36; a validation set of which half was taken from training 0.46; a subset of it 1.
TAKEN_SHARE = 0.4
_BLOCK = 4096  # rows hashed at a time: the 64-bit copies stay in the processor's cache


def shared_rows(a: Examples, b: Examples) -> int:
    """How many rows of `b` also occur in `a`, equal as float32 in every feature (and label, if given).

    Example:
        >>> a = np.array([[1.0, 2.0], [3.0, 4.0]])
        >>> shared_rows(a, np.array([[3.0, 4.0], [3.0, 4.0], [4.0, 3.0]]))
        2
    """
    return int((_occurrences(_Census.of(row_hashes(a)), row_hashes(b)) > 0).sum())


def check_apart(sets: Mapping[str, Examples]) -> None:
    """Raises DataError if one set shares memory with another or was, for a large part, taken from it.

    Each set is an array or tensor with a row for each example, or a tuple of them such as (features, labels). A set
    whose every row occurs several times in the other cannot be judged by content and passes.

    Example:
        >>> features = np.random.default_rng(0).normal(size=(100, 3))
        >>> check_apart({"train": features[:70], "val": features[70:]})
        >>> check_apart({"train": features, "val": features[70:].copy()})
        Traceback (most recent call last):
        metricopt.core.errors.DataError: 30 of 30 rows of 'val' are also in 'train'; expected about 0, ...
    """
    hashes = {name: row_hashes(examples) for name, examples in sets.items()}
    for one, other in combinations(sets, 2):
        large, small = (one, other) if len(hashes[one]) >= len(hashes[other]) else (other, one)
        if _share_memory(sets[large], sets[small]):
            raise DataError(
                f"{small!r} and {large!r} are the same rows in memory; expected sets without a common row: "
                f"pass different rows (torch.utils.data.random_split gives disjoint sets)"
            )
        census = _Census.of(hashes[large])
        seen = _occurrences(census, hashes[small])
        if _was_taken(census, seen):
            raise DataError(
                f"{int((seen > 0).sum())} of {len(seen)} rows of {small!r} are also in {large!r}; expected about "
                f"{census.twins * len(seen):.0f}, as rows repeat within {large!r}: "
                f"pass rows that {large!r} does not hold (torch.utils.data.random_split gives disjoint sets)"
            )


class _Census(NamedTuple):
    """Distinct row hashes of a set, sorted, and how often each occurs."""

    values: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, hashes: np.ndarray) -> "_Census":
        return cls(*np.unique(hashes, return_counts=True))

    @property
    def twins(self) -> float:
        """Part of the rows that have an equal in the same set: what a fresh row of the same origin would find."""
        return 1 - float((self.counts == 1).sum()) / max(int(self.counts.sum()), 1)


def _occurrences(census: _Census, hashes: np.ndarray) -> np.ndarray:
    if not len(census.values):
        return np.zeros(len(hashes), np.int64)
    place = np.minimum(np.searchsorted(census.values, hashes), len(census.values) - 1)
    return np.where(census.values[place] == hashes, census.counts[place], 0)


def _was_taken(census: _Census, seen: np.ndarray) -> bool:
    alone, paired = int((census.counts == 1).sum()), 2 * int((census.counts == 2).sum())
    # One more of each kind: with a handful of rows, having seen no twin does not mean there are none.
    natural = (paired + 1) / (alone + paired + 2)
    rare, found = int((seen <= 1).sum()), int((seen == 1).sum())
    chance = 4 * np.sqrt(natural * (1 - natural) * rare)
    return found - natural * rare > max(TAKEN_SHARE * (1 - natural) * rare, chance)


def row_hashes(examples: Examples) -> np.ndarray:
    """A 64-bit hash of each row, uint64, (rows,); equal rows have equal hashes whatever their number type.

    Example:
        >>> a, b, c = row_hashes(torch.tensor([[0, 1], [1, 0], [0, 1]]))
        >>> bool(a == c), bool(a == b)
        (True, False)
    """
    parts = [_matrix(part) for part in (examples if isinstance(examples, tuple) else (examples,))]
    if len({len(part) for part in parts}) != 1:
        raise DataError(
            f"the arrays of one set have {[len(part) for part in parts]} rows; expected the same number in each"
        )
    multipliers = _multipliers(sum(part.shape[1] for part in parts))
    hashes = np.zeros(len(parts[0]), np.uint64)
    column = 0
    for part in parts:
        own = multipliers[column : column + part.shape[1]]
        for start in range(0, len(part), _BLOCK):
            hashes[start : start + _BLOCK] += _block_hashes(part[start : start + _BLOCK], own)
        column += part.shape[1]
    return hashes


def _block_hashes(block: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        numbers = block.astype(np.float32) + np.float32(0)  # -0.0 + 0 is 0.0, so that equal numbers have equal bits
    words = numbers.view(np.uint32).astype(np.uint64) * multipliers
    # A plain sum of products is linear: small whole numbers, whose float32 bits end in zeros, would collide.
    words ^= words >> np.uint64(32)
    return words.sum(axis=1, dtype=np.uint64)


def _multipliers(count: int) -> np.ndarray:
    """Odd 64-bit constants that look random, one for each column (the splitmix64 sequence)."""
    z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31)) | np.uint64(1)


def _matrix(rows: Rows) -> np.ndarray:
    array = _array(rows)
    if array.ndim == 0 or array.dtype.kind not in "biuf":
        raise DataError(
            f"a set of examples is {array.dtype} of shape {array.shape}; expected real numbers with a row for each "
            f"example: encode text and categories first"
        )
    return array.reshape(len(array), int(np.prod(array.shape[1:])))


def _array(rows: Rows) -> np.ndarray:
    if not isinstance(rows, torch.Tensor):
        return np.asarray(rows)
    rows = rows.detach().cpu()
    return (rows.float() if rows.dtype == torch.bfloat16 else rows).numpy()


def _share_memory(a: Examples, b: Examples) -> bool:
    first, second = (_array(examples[0] if isinstance(examples, tuple) else examples) for examples in (a, b))
    try:
        # numpy's types know of two special limits only; any number is allowed.
        return np.shares_memory(first, second, max_work=100_000)  # pyright: ignore[reportArgumentType]
    except np.exceptions.TooHardError:  # odd strides: the contents decide
        return False
