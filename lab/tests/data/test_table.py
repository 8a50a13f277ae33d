import numpy as np
import pytest

from metricopt.core.errors import DataError
from metricopt_lab.data import Table
from metricopt_lab.data.table import indicators


def toy(**changes) -> Table:
    parts = {
        "features": np.arange(12, dtype=np.float32).reshape(6, 2),
        "target": np.array([0, 1, 2, 0, 1, 2]),
        "columns": ("a", "b"),
        "classes": 3,
        "name": "toy",
        "source": "made up",
        "groups": {"half": np.array([0, 0, 0, 1, 1, 1])},
        "official_train": 4,
    }
    return Table(**(parts | changes))


@pytest.mark.parametrize("index", [np.array([5, 0]), np.array([True, False, False, False, False, True])])
def test_chosen_rows_keep_features_target_and_groups_together(index):
    chosen = toy().rows(index)
    assert {(a, t, g) for (a, _), t, g in zip(chosen.features, chosen.target, chosen.groups["half"], strict=True)} == {
        (0.0, 0, 0),
        (10.0, 2, 1),
    }


def test_chosen_rows_no_longer_claim_an_official_training_part():
    assert toy().official_train == 4
    assert toy().rows(np.array([4, 5])).official_train is None


def test_the_fingerprint_depends_on_contents_and_not_on_the_name():
    assert toy().fingerprint == toy(name="other", source="elsewhere").fingerprint
    changed = [
        toy(features=toy().features + 1),
        toy(target=toy().target[::-1].copy()),
        toy(columns=("a", "c")),
        toy(groups={"half": np.zeros(6, np.int64)}),
        toy(groups={"third": toy().groups["half"]}),
    ]
    assert len({table.fingerprint for table in [toy(), *changed]}) == 6


def test_the_fingerprint_does_not_depend_on_memory_layout():
    assert toy(features=np.asfortranarray(toy().features)).fingerprint == toy().fingerprint


def test_the_shown_form_tells_size_class_shares_and_groups():
    assert repr(toy()) == "Table('toy': 6 rows x 2 features, classes 0: 33.3%, 1: 33.3%, 2: 33.3%, groups half: 2)"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": np.zeros((5, 2), np.float32)}, r"shape \(5, 2\).*shape \(6, 2\)"),
        ({"features": np.zeros((6, 2))}, "float64.*expected float32"),
        ({"features": np.full((6, 2), np.nan, np.float32)}, "12 features .* are NaN or infinite"),
        ({"columns": ("a",)}, r"expected float32 of shape \(6, 1\)"),
        ({"target": np.zeros(6)}, "target .* is float64 .* expected int64"),
        ({"target": np.array([0, 1, 2, 3, 1, 2])}, "from 0 to 3; expected 0 to 2"),
        ({"target": np.array([0, 1, 2, -1, 1, 2])}, "from -1 to 2"),
        ({"groups": {"half": np.zeros(5, np.int64)}}, r"half .* shape \(5,\)"),
    ],
)
def test_parts_that_do_not_fit_are_refused_with_what_was_found(changes, message):
    with pytest.raises(DataError, match=message):
        toy(**changes)


def test_indicators_mark_known_codes_and_nothing_else():
    codes = np.array([2, 0, 255, -1], np.int64)
    np.testing.assert_array_equal(indicators(codes, 3), [[0, 0, 1], [1, 0, 0], [0, 0, 0], [0, 0, 0]])
