"""Sets that were kept apart pass, taken ones do not, on data with and without natural duplicates."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from metricopt.core.errors import DataError
from metricopt.data import check_apart, shared_rows
from metricopt.data.leakage import row_hashes


def test_training_rows_inside_a_larger_validation_set_are_found_too():
    rows = np.random.default_rng(0).normal(size=(100, 3))
    with pytest.raises(DataError, match="40 of 40 rows of 'train' are also in 'val'"):
        check_apart({"train": rows[:40].copy(), "val": rows})


def test_a_single_taken_row_of_continuous_data_is_found():
    rows = np.random.default_rng(0).normal(size=(500, 3))
    with pytest.raises(DataError, match="1 of 1 rows of 'val'"):
        check_apart({"train": rows, "val": rows[7:8].copy()})


def test_few_rows_of_few_values_are_not_mistaken_for_taken_ones():
    rng = np.random.default_rng(0)
    for _ in range(200):
        check_apart({"train": rng.integers(0, 10, size=(5, 1)), "val": rng.integers(0, 10, size=(2, 1))})


def test_the_same_array_is_refused_even_if_all_its_rows_are_equal():
    rows = np.zeros((10, 2))
    with pytest.raises(DataError, match="'val' and 'train' are the same rows in memory"):
        check_apart({"train": (rows, np.zeros(10)), "val": (rows[5:], np.zeros(5))})
    check_apart({"train": rows[:6], "val": rows[6:]})
    check_apart({"train": rows[::2], "val": rows[1::2]})


def test_a_view_of_a_tensor_is_refused():
    rows = torch.ones(10, 2)
    with pytest.raises(DataError, match="same rows in memory"):
        check_apart({"train": rows, "val": rows[5:]})


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8])
def test_copies_in_another_number_type_are_found(dtype):
    rows = torch.randint(0, 200, (300, 4), generator=torch.Generator().manual_seed(0))
    with pytest.raises(DataError, match="300 of 300 rows"):
        check_apart({"train": rows.float(), "val": rows.to(dtype)})


def test_images_are_compared_whole():
    images = torch.rand(20, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    flipped = images.flip(-1)
    assert shared_rows(images, images[5:9]) == 4
    assert shared_rows(images, flipped) == 0


def test_the_same_features_with_another_label_are_another_row():
    features = np.arange(6.0).reshape(3, 2)
    assert shared_rows((features, np.array([0, 0, 1])), (features, np.array([0, 1, 1]))) == 2


small_tables = st.integers(1, 3).flatmap(
    lambda width: st.tuples(
        *[
            st.integers(0, 8).flatmap(
                lambda rows: arrays(np.float32, (rows, width), elements=st.sampled_from([-1.0, -0.0, 0.0, 1.0, 2.5]))
            )
        ]
        * 2
    )
)


@given(small_tables)
def test_shared_rows_are_counted_as_by_plain_loops(tables):
    a, b = tables
    assert shared_rows(a, b) == sum(any(tuple(x) == tuple(y) for x in a) for y in b)


def test_different_rows_have_different_hashes():
    # Every 0-1 vector of 16 columns, and every pair of small whole numbers: the patterns of encoded tables.
    bits = (np.arange(2**16)[:, None] >> np.arange(16)) & 1
    pairs = np.stack(np.meshgrid(np.arange(256), np.arange(256)), axis=-1).reshape(-1, 2)
    assert len(np.unique(row_hashes(bits))) == len(bits)
    assert len(np.unique(row_hashes(pairs))) == len(pairs)


def test_the_shared_rows_of_half_a_million_are_counted():  # by plain loops that would take hours
    rows = np.random.default_rng(0).normal(size=(500_000, 54)).astype(np.float32)
    assert shared_rows(rows[:400_000], rows[390_000:]) == 10_000


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((np.zeros((3, 2)), np.zeros(2)), r"\[3, 2\] rows"),
        (np.array([["a"], ["b"]]), "encode text"),
        (np.array(1.0), r"shape \(\)"),
    ],
)
def test_sets_that_are_no_rows_of_numbers_are_refused(rows, message):
    with pytest.raises(DataError, match=message):
        check_apart({"train": rows})
