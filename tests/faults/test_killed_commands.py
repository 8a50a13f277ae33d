"""Runs with a command under way, killed at random moments: METRICOPT_KILLS says how often, 60 for the whole promise."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells of orphans")

KILLS = int(os.environ.get("METRICOPT_KILLS", "8"))


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder, here = tmp_path_factory.mktemp("killed"), Path(__file__)
    roots = os.pathsep.join([str(here.parents[2]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "PYTHONPATH": roots}
    command = [sys.executable, str(here.with_name("killed_commands.py")), str(folder), str(KILLS), "0"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_every_run_ends_with_the_bits_and_files_of_an_uninterrupted_one(told):
    assert told["kills"] >= KILLS and {run["way"] for run in told["runs"]} == {"adapter", "weights"}
    assert [run["different"] for run in told["runs"]] == [[]] * len(told["runs"])


def test_no_command_outlives_its_run(told):
    assert [run["orphans"] for run in told["runs"]] == [[]] * len(told["runs"])


def test_a_kill_swallows_at_most_the_call_that_was_under_way(told):
    assert [run for run in told["runs"] if not 0 <= run["lost"] <= run["kills"]] == []
