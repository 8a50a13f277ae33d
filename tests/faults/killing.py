"""Runs that are killed: one at a time in a process of its own, and scripts of them, which tests start."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[2]
PATIENCE = 250.0  # seconds for a run that nobody kills


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


def killed_until_done(
    run: Callable[[], None], moments: random.Random, duration: float, *, most: int, then: Callable[[], None]
) -> int:
    """Run until it gets through, killed at random moments; how often it was, at most so many times.

    The bound is for machines that have become slower since `duration` was measured: there it would hardly get through.

    Args:
        run: Goes on where it was.
        moments: Draws the moments.
        duration: Of a run that nobody kills.
        most: Kills.
        then: Called after each.
    """
    kills = 0
    while kills < most:
        if finished(run, moments.uniform(0.0, duration)):
            return kills
        kills += 1
        then()
    assert finished(run, PATIENCE)
    return kills


def kill_and_resume(run: Callable[[Path], None], account: Callable[[Path], dict]) -> None:
    """What such a script does, FOLDER KILLS SEED: a whole run, then runs killed at random moments until they finish.

    Prints kills and accounts as JSON; an account has all of a folder that must not depend on kills.
    """
    folder, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    run(folder / "warm-up")  # children then need not import what torch imports late
    began = time.monotonic()
    assert finished(partial(run, folder / "whole"), PATIENCE)
    duration, moments, runs = time.monotonic() - began, random.Random(seed), []
    while left := kills - sum(one["kills"] for one in runs):
        broken = folder / f"broken {len(runs)}"
        killed = killed_until_done(partial(run, broken), moments, duration, most=left, then=lambda: None)
        runs.append({"kills": killed, "account": account(broken)})
    print(json.dumps({"expected": account(folder / "whole"), "runs": runs}))
