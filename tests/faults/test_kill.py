import sys
from pathlib import Path

import pytest
from tests.faults.killing import told_by

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")

KILLS, QUERIES = 20, 60


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return told_by(Path(__file__).with_name("killed_runs.py"), tmp_path_factory.mktemp("killed"), kills=KILLS)


def test_runs_killed_at_20_random_moments_end_with_the_bits_of_an_uninterrupted_one(runs):
    assert sum(run["kills"] for run in runs) >= KILLS
    assert {run["kind"] for run in runs} == {"one by one", "in batches"}
    assert [run["different"] for run in runs] == [[]] * len(runs)


def test_no_answer_is_paid_for_twice(runs):
    for run in runs:
        if run["kind"] == "one by one":
            lost = [now - before for before, now in zip([0, *run["wasted"]], run["wasted"], strict=False)]
            assert set(lost) <= {0, 1}, "a kill swallows at most the answer that was under way"
            assert run["calls"] == QUERIES + 1 + sum(lost), "the original is asked about twice"
