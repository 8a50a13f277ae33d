"""What is said of queries saved, from made-up records."""

import pytest

from metricopt_lab.studies.transfer.pairs import PAIRS, SIZES
from metricopt_lab.studies.transfer.text import saved, transfer_text, verdict


def record(method, seed, needed, refused=""):
    return {
        "data": "metric", "method": method, "seed": seed, "needed": needed, "queries": 200, "refused": refused,
        "scale": "small", "granted": 150, "problem": "made up", "kind": None, "test_gain": 0.1, "cold_spread": 0.01,
    }  # fmt: skip


def records(numbers):
    return [record("cold", s, 150) for s in range(3)] + [record("phi", s, n) for s, n in enumerate(numbers)]


def test_there_are_six_pairs_at_least_and_the_issue_s_number_of_queries():
    assert len(PAIRS) >= 6
    assert SIZES["small"].queries == 150


@pytest.mark.parametrize(
    ("numbers", "words"),
    [((50, 60, 55), "saves queries"), ((190, 195, 200), "too dear"), ((120, 200, 150), "no difference resolved")],
)
def test_a_verdict_follows_from_the_interval(numbers, words):
    assert verdict(records(numbers), "metric", "phi") == words


def test_a_goal_that_was_not_reached_counts_as_all_queries():
    assert saved(records((None, 100, 150)), "metric", "phi") == [-50.0, 50.0, 0.0]


def test_the_text_has_needed_queries_intervals_and_refusals():
    found = transfer_text([*records((50, 60, 55)), record("predictions", 0, None, "other rows")])
    assert "+95 (+83 .. +107)" in found
    assert "refused: other rows" in found
    assert "saves queries: 1" in found
