"""Workers report all that their jobs yield, and do not outlive the command that started them."""

import os
import signal
import subprocess
import sys
import time

import pytest

from metricopt.core.errors import MetricOptError
from metricopt_lab.cells.workers import in_processes

PARENT = """
import multiprocessing, sys, time
from metricopt_lab.cells.workers import begin_worker

def serve():
    begin_worker()
    time.sleep(600)

if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=serve)
    child.start()
    print(child.pid, flush=True)
    child.join()
"""


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_worker_ends_when_its_parent_is_killed(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    time.sleep(8)  # the worker has to import torch before it can watch
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 60
    while _alive(worker) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not _alive(worker)


def test_processes_report_all_that_their_jobs_yield():
    assert sorted(in_processes(range, [3, 2], workers=2)) == [0, 0, 1, 1, 2]


def test_a_process_that_fails_or_dies_is_an_error_and_no_endless_wait():
    with pytest.raises(MetricOptError, match="failed"):
        list(in_processes(range, ["three"], workers=1))
    with pytest.raises(MetricOptError, match="died"):
        list(in_processes(os._exit, [3], workers=1))
