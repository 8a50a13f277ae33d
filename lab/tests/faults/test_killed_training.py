import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = 8


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_trainings_killed_at_random_moments_end_with_the_bits_of_an_uninterrupted_one(tmp_path):
    script = Path(__file__).with_name("killed_training.py")
    threads = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    command = [sys.executable, str(script), str(tmp_path), str(KILLS), "0"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **threads}, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert sum(run["kills"] for run in found["runs"]) >= KILLS
    assert [run["account"] for run in found["runs"]] == [found["expected"]] * len(found["runs"])
