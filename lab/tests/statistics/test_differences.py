"""Differences: a sign is believed beyond two standard errors only."""

import math

import numpy as np
import pytest

from metricopt_lab.statistics.differences import Difference


def test_doubt_is_two_standard_errors_of_the_mean():
    found = [0.1, 0.4, 0.2, 0.3]
    assert Difference(found).doubt == pytest.approx(2 * np.std(found, ddof=1) / math.sqrt(4))


@pytest.mark.parametrize(
    ("found", "seen"),
    [
        ((-0.1, -0.2, -0.15), "lower"),
        ((0.1, 0.2, 0.15), "higher"),
        ((-0.1, 0.2, 0.15), "no difference is resolved"),
        ((0.0, 0.0), "no difference is resolved"),
        ((-0.5,), "one seed tells nothing"),
        ((), "not measured"),
    ],
)
def test_what_is_seen(found, seen):
    assert Difference(found).seen == seen and seen in str(Difference(found))
