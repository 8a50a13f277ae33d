"""Runs that are killed: one at a time in a process of its own, and scripts of them, which tests start."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def told_by(script: Path, folder: Path, *, kills: int) -> Any:
    """What a script of killed runs prints: it forks, and a process that has run tests must not."""
    roots = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "PYTHONPATH": roots}
    command = [sys.executable, str(script), str(folder), str(kills), "0"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def finished(run: Callable[[], None], patience: float) -> bool:
    """Run in a process of its own for at most `patience` seconds; whether it finished."""
    child = os.fork()
    if child == 0:
        run()
        os._exit(0)
    end = time.monotonic() + patience
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert status == 0, f"a run ended with status {status}"
            return True
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False
