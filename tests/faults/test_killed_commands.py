"""Runs with a command under way, killed at random moments: METRICOPT_KILLS says how often, 60 for the whole promise."""

import os
import sys
from pathlib import Path

import pytest
from tests.faults.killing import told_by

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells of orphans")

KILLS = int(os.environ.get("METRICOPT_KILLS", "8"))


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    return told_by(Path(__file__).with_name("killed_commands.py"), tmp_path_factory.mktemp("killed"), kills=KILLS)


def test_every_run_ends_with_the_bits_and_files_of_an_uninterrupted_one(told):
    assert told["kills"] >= KILLS and {run["way"] for run in told["runs"]} == {"adapter", "weights"}
    assert [run["different"] for run in told["runs"]] == [[]] * len(told["runs"])


def test_no_command_outlives_its_run(told):
    assert [run["orphans"] for run in told["runs"]] == [[]] * len(told["runs"])


def test_a_kill_swallows_at_most_the_call_that_was_under_way(told):
    assert [run for run in told["runs"] if not 0 <= run["lost"] <= run["kills"]] == []
