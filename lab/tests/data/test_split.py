import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metricopt.core.errors import DataError
from metricopt_lab.data import check_disjoint, split


@given(count=st.integers(10, 500), seed=st.integers(0, 2**31), stratified=st.booleans())
def test_parts_are_disjoint_and_cover_every_row_once(count, seed, stratified):
    labels = np.arange(count) % 3 if stratified else None
    parts = split(count, fractions=(0.5, 0.3, 0.2), seed=seed, stratify=labels)
    check_disjoint({str(k): part for k, part in enumerate(parts)})
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(count))


@given(counts=st.lists(st.integers(20, 200), min_size=1, max_size=4), seed=st.integers(0, 1000))
def test_a_stratified_part_holds_each_labels_share_to_within_one_row(counts, seed):
    fractions = (0.7, 0.1, 0.2)
    labels = np.repeat(np.arange(len(counts)), counts)
    for part, fraction in zip(
        split(len(labels), fractions=fractions, seed=seed, stratify=labels), fractions, strict=True
    ):
        for label, count in enumerate(counts):
            assert abs((labels[part] == label).sum() - fraction * count) <= 1


def test_the_seed_decides_the_parts():
    first, again, other = (split(200, seed=seed)[0] for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert set(first) != set(other)


@pytest.mark.parametrize("stratify", [None, np.repeat([0, 1], 500)])
def test_rows_within_a_part_are_shuffled(stratify):
    train = split(1000, seed=0, stratify=stratify)[0]
    assert abs(np.corrcoef(train, np.arange(len(train)))[0, 1]) < 0.2


def test_sizes_follow_the_fractions():
    assert [len(part) for part in split(48842, seed=0)] == [34189, 4885, 9768]


@pytest.mark.parametrize("fractions", [(), (0.5, 0.4), (1.2, -0.2), (1.0, 0.0)])
def test_fractions_that_are_no_division_are_refused(fractions):
    with pytest.raises(DataError, match="positive numbers that sum to 1"):
        split(100, fractions=fractions, seed=0)


def test_too_few_rows_for_every_part_are_refused():
    with pytest.raises(DataError, match=r"3 rows cut by .* leave an empty part \(sizes \[2, 0, 1\]\)"):
        split(3, seed=0)


def test_labels_of_the_wrong_length_are_refused():
    with pytest.raises(DataError, match=r"\(9,\); expected \(10,\)"):
        split(10, seed=0, stratify=np.zeros(9))


def test_one_common_position_among_three_sets_is_found_and_named():
    with pytest.raises(DataError, match=r"1 of 3 row positions of 'test' are also in 'train' \(the first is 4\)"):
        check_disjoint({"train": np.arange(5), "val": np.arange(5, 8), "test": np.array([9, 4, 8])})
