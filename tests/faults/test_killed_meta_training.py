import sys
from pathlib import Path

import pytest
from tests.faults.killing import told_by

KILLS = 6


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_meta_trainings_killed_at_random_moments_end_with_the_bits_of_an_uninterrupted_one(tmp_path):
    found = told_by(Path(__file__).with_name("killed_meta_training.py"), tmp_path, kills=KILLS)
    assert sum(run["kills"] for run in found["runs"]) >= KILLS
    assert len(found["expected"]["history"]) == 8 and any(each["updated"] for each in found["expected"]["history"])
    assert [run["account"] for run in found["runs"]] == [found["expected"]] * len(found["runs"])
