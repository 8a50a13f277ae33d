"""Real data repeat themselves: sets of A9A are apart although they share rows, unless one was taken from the other."""

import numpy as np
import pytest

from metricopt.core.errors import DataError
from metricopt.data import check_apart, shared_rows
from metricopt_lab.data import adult_a9a, split


@pytest.fixture(scope="module")
def a9a():
    return adult_a9a()


def examples(table):
    return table.features, table.target


@pytest.mark.parametrize("seed", range(5))
def test_random_splits_of_a9a_are_apart_although_a_fifth_or_more_of_their_rows_are_shared(a9a, seed):
    train, val, test = (examples(a9a.rows(part)) for part in split(len(a9a), seed=seed))
    assert shared_rows(train, val) / len(val[0]) > 0.2
    check_apart({"train": train, "val": val, "test": test})


def test_the_official_split_of_a9a_is_apart(a9a):
    official = np.arange(len(a9a)) < a9a.official_train
    check_apart({"train": examples(a9a.rows(official)), "test": examples(a9a.rows(~official))})


@pytest.mark.parametrize("kind", ["sex", "race"])
def test_a_validation_set_of_one_group_is_apart_from_training_on_all(a9a, kind):
    # The common groups repeat each other more than the average row does.
    train, val, _ = split(len(a9a), seed=0, fractions=(0.6, 0.3, 0.1))
    for code in np.unique(a9a.groups[kind]):
        chosen = val[a9a.groups[kind][val] == code]
        check_apart({"train": examples(a9a.rows(train)), "val": examples(a9a.rows(chosen))})


def test_training_rows_without_their_duplicates_are_apart_from_the_rest(a9a):
    train, _, test = (a9a.rows(part) for part in split(len(a9a), seed=0))
    _, first = np.unique(train.features, axis=0, return_index=True)
    check_apart({"train": examples(train.rows(first)), "test": examples(test)})


@pytest.mark.parametrize("size", [20, 500, 20_000])
def test_a_validation_set_taken_from_a9as_training_rows_is_found_in_any_order(a9a, size):
    train = a9a.rows(split(len(a9a), seed=0)[0])
    taken = train.rows(np.random.default_rng(0).permutation(len(train))[:size])
    with pytest.raises(DataError, match=f"{size} of {size} rows of 'val' are also in 'train'; expected about "):
        check_apart({"train": examples(train), "val": examples(taken)})


def test_a_validation_set_half_taken_from_training_is_found(a9a):
    train, val, _ = split(len(a9a), seed=0)
    mixed = np.concatenate([train[: len(val)], val])
    with pytest.raises(DataError, match="rows of 'val' are also in 'train'"):
        check_apart({"train": examples(a9a.rows(train)), "val": examples(a9a.rows(mixed))})
