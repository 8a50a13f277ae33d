"""A9A against published facts, and the shipped file against UCI's text where that is at hand."""

import csv
import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

from metricopt.core.errors import DataError
from metricopt_lab.data import adult_a9a, adult_raw
from metricopt_lab.data.adult import quintile_edges

TEXT = Path(os.environ.get("METRICOPT_DATA", "nowhere"), "adult")
needs_text = pytest.mark.skipif(not TEXT.exists(), reason="UCI's Adult text is in the folder METRICOPT_DATA only")


@pytest.fixture(scope="module")
def a9a():
    return adult_a9a()


def test_a9a_has_libsvms_rows_and_ones(a9a):
    train, test = a9a.features[: a9a.official_train], a9a.features[a9a.official_train :]
    assert (len(train), len(test)) == (32_561, 16_281)
    assert (int(train.sum()), int(test.sum())) == (451_592, 225_731)
    assert set(np.unique(a9a.features)) == {0.0, 1.0}


def test_each_a9a_feature_has_its_number_of_ones(a9a):
    with Path(__file__).with_name("a9a_counts.csv").open() as file:
        facts = list(csv.DictReader(file))
    counts = zip(
        a9a.columns,
        a9a.features[: a9a.official_train].sum(axis=0),
        a9a.features[a9a.official_train :].sum(axis=0),
        strict=True,
    )
    for fact, (name, n_train, n_test) in zip(facts, counts, strict=True):
        assert fact["attribute"] in name
        assert (int(fact["n_train"]), int(fact["n_test"])) == (n_train, n_test), name


def test_the_first_row_of_a9a_is_that_of_libsvms_file(a9a):
    # First line of LIBSVM's a9a: -1 3:1 11:1 14:1 19:1 39:1 42:1 55:1 64:1 67:1 73:1 75:1 76:1 80:1 83:1
    ones = np.flatnonzero(a9a.features[0]) + 1
    assert ones.tolist() == [3, 11, 14, 19, 39, 42, 55, 64, 67, 73, 75, 76, 80, 83]
    assert a9a.target[0] == 0


def test_positives_are_the_incomes_above_50k(a9a):
    assert int(a9a.target[: a9a.official_train].sum()) == 7_841
    assert int(a9a.target[a9a.official_train :].sum()) == 3_846


def test_features_between_two_edges_say_so_in_their_name(a9a):
    raw = adult_raw()
    age = raw.features[:, raw.columns.index("age")]
    np.testing.assert_array_equal(a9a.features[:, a9a.columns.index("26 <= age < 33")], (age >= 26) & (age < 33))
    np.testing.assert_array_equal(a9a.features[:, a9a.columns.index("50 <= age")], age >= 50)


def test_raw_adult_keeps_numbers_and_has_at_most_one_category_of_each_attribute():
    raw = adult_raw()
    assert raw.features.shape == (48_842, 105)
    numbers = [k for k, name in enumerate(raw.columns) if "=" not in name]
    # First row of UCI's adult.data: 39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family,
    # White, Male, 2174, 0, 40, United-States, <=50K
    assert raw.features[0, numbers].tolist() == [39, 77516, 13, 2174, 0, 40]
    ones = [raw.columns[k] for k in np.flatnonzero(raw.features[0]) if k not in numbers]
    assert [name.split("=")[1] for name in ones] == [
        *("State-gov", "Bachelors", "Never-married", "Adm-clerical", "Not-in-family", "White", "Male", "United-States")
    ]
    missing = {
        attribute: int((raw.features[:, [name.startswith(f"{attribute}=") for name in raw.columns]].sum(1) == 0).sum())
        for attribute in ("workclass", "education", "occupation", "race", "sex", "native-country")
    }
    # Counts of `?` in UCI's two files.
    unknown = {"workclass": 2799, "occupation": 2809, "native-country": 857}
    assert missing == {"education": 0, "race": 0, "sex": 0} | unknown


def test_groups_agree_with_the_features(a9a):
    np.testing.assert_array_equal(a9a.groups["sex"], a9a.features[:, a9a.columns.index("sex=Male")])
    np.testing.assert_array_equal(a9a.groups["race"] == 4, a9a.features[:, a9a.columns.index("race=Black")] == 1)
    np.testing.assert_array_equal(a9a.groups["sex_race"], 5 * a9a.groups["sex"] + a9a.groups["race"])


def test_each_call_gives_arrays_of_its_own(a9a):
    changed = adult_a9a()
    changed.features[:] = 7
    assert adult_a9a().fingerprint == a9a.fingerprint


def test_the_attribution_names_authors_licence_and_changes(a9a):
    for word in ("Becker", "Kohavi", "CC BY 4.0", "10.24432/C5XW20", "A9A"):
        assert word in a9a.source


def test_edges_follow_the_order_statistics_and_part_where_they_tie():
    values = np.array([3, 1, 2, 2, 2, 2, 2, 9, 8, 7, 5])  # sorted: 1 2 2 2 2 2 3 5 7 8 9; ranks 3, 5, 7, 9
    assert quintile_edges(values) == [2, 3, 4, 7]


def packer():
    path = Path(__file__).parents[3] / "tools" / "pack_adult.py"
    spec = importlib.util.spec_from_file_location("pack_adult", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@needs_text
def test_packing_ucis_text_gives_the_shipped_file():
    packed = packer().pack(TEXT / "adult.data.gz", TEXT / "adult.test.gz")
    shipped_path = Path(__file__).parents[2] / "src" / "metricopt_lab" / "data" / "files" / "adult.npz"
    with np.load(shipped_path) as shipped:
        assert sorted(shipped.files) == sorted(packed)
        for name, values in packed.items():
            assert shipped[name].dtype == values.dtype
            np.testing.assert_array_equal(shipped[name], values)


def test_packing_a_changed_text_is_refused(tmp_path):
    path = tmp_path / "adult.data"
    path.write_text("39, State-gov, 77516\n")
    with pytest.raises(DataError, match=r"adult\.data have sha256 .* expected df25a4e3"):
        packer().pack(path, path)
