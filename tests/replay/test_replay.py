"""Recorded small runs come out again, bit for bit: what changes them has to say so."""

import json

import pytest
from tests.replay.problems import PROBLEMS
from tests.replay.record import FILE, machine, replay
from tests.replay.runs import WAYS

RECORDED = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_recorded_run_comes_out_again_to_the_last_bit(problem, way):
    if RECORDED[0]["machine"] != machine():
        pytest.skip(f"recorded with {RECORDED[0]['machine']}, this machine has {machine()}")
    expected = next(run for run in RECORDED[1:] if (run["problem"], run["way"]) == (problem, way))
    assert replay(problem, way) == expected
